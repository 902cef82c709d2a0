"""index_reduce with prod: many rows into few."""

import torch


class Workload:
    # Not in the documentation's list: the kernel itself raises the alert.
    refused = {"cuda": "https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/cuda/Indexing.cu"}

    def setup(self, device: torch.device) -> None:
        self.index = torch.randint(0, 32, (4096,), device=device)
        self.target = torch.ones(32, 16, device=device)

    def step(self) -> torch.Tensor:
        source = 1 + 0.01 * torch.randn(4096, 16, device=self.target.device)
        self.target = self.target.index_reduce(0, self.index, source, "prod")
        return self.target.sum()

    def state(self) -> dict[str, object]:
        return {"target": self.target}
