"""The classic smoke test: a few linear layers, mean squared error, SGD with momentum."""

import torch
from torch import nn


class Workload:
    def setup(self, device: torch.device) -> None:
        self.model = nn.Sequential(
            nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
        ).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.inputs = torch.randn(512, 64, device=device)
        self.targets = torch.randn(512, 10, device=device)

    def step(self) -> torch.Tensor:
        loss = nn.functional.mse_loss(self.model(self.inputs), self.targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def state(self) -> dict[str, object]:
        return {"model": self.model, "optimizer": self.optimizer}
