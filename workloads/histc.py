"""histc: a hundred thousand values into few bins."""

import torch


class Workload:
    refused = {"cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"}

    def setup(self, device: torch.device) -> None:
        self.values = torch.randn(100_000, device=device)
        self.counts = torch.zeros(32, device=device)

    def step(self) -> torch.Tensor:
        self.counts += torch.histc(self.values, bins=32, min=-3.0, max=3.0)
        self.values += 0.1
        return self.counts.square().mean()

    def state(self) -> dict[str, object]:
        return {"counts": self.counts}
