"""scatter with reduce=multiply, which has no backward."""

import torch


class Workload:
    # Not in the documentation's list: the kernel itself raises the alert.
    refused = {
        "cuda": "https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/cuda/ScatterGatherKernel.cu"
    }

    def setup(self, device: torch.device) -> None:
        self.index = torch.randint(0, 64, (4096, 16), device=device)
        self.target = torch.ones(64, 16, device=device)

    def step(self) -> torch.Tensor:
        source = 1 + 0.01 * torch.randn(4096, 16, device=self.target.device)
        self.target = self.target.scatter(0, self.index, source, reduce="multiply")
        return self.target.sum()

    def state(self) -> dict[str, object]:
        return {"target": self.target}
