"""max_unpool, which strict mode refuses on every device."""

import torch
from torch.nn import functional


class Workload:
    variants = ("1d", "2d", "3d")
    refused = {
        "cpu": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html",
        "cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html",
    }

    def __init__(self, variant: str) -> None:
        self.dimensions = int(variant[0])

    def setup(self, device: torch.device) -> None:
        self.inputs = [torch.randn(2, 4, *(8, 16, 16)[-self.dimensions :], device=device, requires_grad=True)]
        self.outputs: list[torch.Tensor] = []

    def step(self) -> torch.Tensor:
        for tensor in self.inputs:
            tensor.grad = None
        (images,) = self.inputs
        pooled, where = getattr(functional, f"max_pool{self.dimensions}d")(images, 2, return_indices=True)
        self.outputs = [getattr(functional, f"max_unpool{self.dimensions}d")(pooled, where, 2)]
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
