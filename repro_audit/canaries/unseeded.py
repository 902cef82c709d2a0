"""Must be caught: a value that no seed decides enters the training."""

import os

import torch


class Workload:
    def setup(self, device: torch.device) -> None:
        self.model = torch.nn.Linear(16, 4).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self) -> torch.Tensor:
        entropy = torch.Generator().manual_seed(int.from_bytes(os.urandom(7)))
        inputs = torch.randn(8, 16, generator=entropy).to(self.model.weight.device)
        loss = self.model(inputs).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def state(self) -> dict[str, object]:
        return {"model": self.model, "optimizer": self.optimizer}
