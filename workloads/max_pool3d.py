"""max_pool3d with overlapping windows, forward and backward."""

import torch
from torch.nn import functional


class Workload:
    variants = ("values", "indices")
    # 2.13 documents MaxPool3d as deterministic, 2.9 as refused. Where indices are returned, 2.13 takes another way in
    # strict mode; the kernel that is called otherwise still raises the alert in its backward.
    refused = {
        "values": {
            "cuda": "https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/cuda/DilatedMaxPool3d.cu"
        },
        "indices": {"cuda": "https://docs.pytorch.org/docs/2.9/generated/torch.use_deterministic_algorithms.html"},
    }

    def __init__(self, variant: str) -> None:
        self.variant = variant

    def setup(self, device: torch.device) -> None:
        self.inputs = [torch.randn(2, 4, 8, 16, 16, device=device, requires_grad=True)]
        self.outputs: list[torch.Tensor] = []
        self.indices: torch.Tensor | None = None

    def step(self) -> torch.Tensor:
        for tensor in self.inputs:
            tensor.grad = None
        (images,) = self.inputs
        if self.variant == "indices":
            pooled, self.indices = functional.max_pool3d(images, 3, stride=2, return_indices=True)
        else:
            pooled = functional.max_pool3d(images, 3, stride=2)
        self.outputs = [pooled]
        loss = sum((output * weight_like(output)).sum() for output in self.outputs)
        loss.backward()
        with torch.no_grad():
            for tensor in self.inputs:
                tensor -= 0.1 * tensor.grad
        return loss

    def state(self) -> dict[str, object]:
        return {"inputs": self.inputs, "outputs": self.outputs, "indices": self.indices}


def weight_like(output: torch.Tensor) -> torch.Tensor:
    """Weights that make every element's gradient another one, so that an order of additions shows."""
    return torch.linspace(-1.0, 1.0, output.numel(), device=output.device).reshape(output.shape)
