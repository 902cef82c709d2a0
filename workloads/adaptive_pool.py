"""Adaptive pooling whose windows overlap, forward and backward."""

import torch
from torch.nn import functional


class Workload:
    variants = ("avg2d", "avg3d", "max2d")
    refused = {
        "avg2d": {"cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"},
        "avg3d": {"cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"},
        "max2d": {"cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"},
    }

    def __init__(self, variant: str) -> None:
        self.kind, self.dimensions = variant[:3], int(variant[3])

    def setup(self, device: torch.device) -> None:
        self.inputs = [torch.randn(2, 4, *(9, 15, 15)[-self.dimensions :], device=device, requires_grad=True)]
        self.outputs: list[torch.Tensor] = []

    def step(self) -> torch.Tensor:
        for tensor in self.inputs:
            tensor.grad = None
        (images,) = self.inputs
        self.outputs = [getattr(functional, f"adaptive_{self.kind}_pool{self.dimensions}d")(images, 4)]
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
