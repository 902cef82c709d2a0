"""max_pool3d with overlapping windows, forward and backward."""

import torch
from torch.nn import functional


class Workload:
    # The documentation lists MaxPool3d as deterministic, the kernel's backward raises the alert.
    refused = {"cuda": "https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/cuda/DilatedMaxPool3d.cu"}

    def setup(self, device: torch.device) -> None:
        self.inputs = [torch.randn(2, 4, 8, 16, 16, device=device, requires_grad=True)]
        self.outputs: list[torch.Tensor] = []

    def step(self) -> torch.Tensor:
        for tensor in self.inputs:
            tensor.grad = None
        (images,) = self.inputs
        self.outputs = [functional.max_pool3d(images, 3, stride=2)]
        loss = sum((output * weight_like(output)).sum() for output in self.outputs)
        loss.backward()
        with torch.no_grad():
            for tensor in self.inputs:
                tensor -= 0.1 * tensor.grad
        return loss

    def state(self) -> dict[str, object]:
        return {"inputs": self.inputs, "outputs": self.outputs}


def weight_like(output: torch.Tensor) -> torch.Tensor:
    """Weights that make every element's gradient another one, so that an order of additions shows."""
    return torch.linspace(-1.0, 1.0, output.numel(), device=output.device).reshape(output.shape)
