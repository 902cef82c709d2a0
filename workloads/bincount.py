"""bincount with weights: a hundred thousand additions into few bins."""

import torch


class Workload:
    refused = {"cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"}

    def setup(self, device: torch.device) -> None:
        self.bins = torch.randint(0, 32, (100_000,), device=device)
        self.sums = torch.zeros(32, device=device)

    def step(self) -> torch.Tensor:
        weights = torch.randn(100_000, device=self.bins.device)
        self.sums += torch.bincount(self.bins, weights=weights, minlength=32)
        return self.sums.square().mean()

    def state(self) -> dict[str, object]:
        return {"sums": self.sums}
