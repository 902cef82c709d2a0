"""Must be caught: one element of one parameter, one unit in the last place off, in the last step of one process."""

import torch


class Workload:
    def __init__(self, nudged_step: str = "0") -> None:
        # The plan names a step in the one process that must stand out; step 0 is never reached.
        self.nudged_step = int(nudged_step)
        self.steps = 0

    def setup(self, device: torch.device) -> None:
        self.model = torch.nn.Linear(16, 4).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.inputs = torch.randn(8, 16, device=device)

    def step(self) -> torch.Tensor:
        loss = self.model(self.inputs).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        if self.steps == self.nudged_step:
            with torch.no_grad():
                self.model.weight.view(torch.int32)[3, 15] ^= 1
        return loss

    def state(self) -> dict[str, object]:
        return {"model": self.model, "optimizer": self.optimizer}
