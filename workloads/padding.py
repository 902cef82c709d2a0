"""Reflection and replication padding, whose backwards add at the borders."""

import torch
from torch.nn import functional


class Workload:
    variants = ("reflect1d", "reflect2d", "reflect3d", "replicate1d", "replicate2d", "replicate3d")
    # Documented for reflect2d, too, whose kernel raises no alert any more; replication goes another way in strict mode.
    refused = {
        "reflect1d": {"cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"},
        "reflect2d": {"cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"},
        "reflect3d": {"cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"},
    }

    def __init__(self, variant: str) -> None:
        self.mode, self.dimensions = variant[:-2], int(variant[-2])

    def setup(self, device: torch.device) -> None:
        self.inputs = [torch.randn(2, 3, *(8, 24, 24)[-self.dimensions :], device=device, requires_grad=True)]
        self.outputs: list[torch.Tensor] = []

    def step(self) -> torch.Tensor:
        for tensor in self.inputs:
            tensor.grad = None
        (images,) = self.inputs
        self.outputs = [functional.pad(images, (5,) * 2 * self.dimensions, mode=self.mode)]
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
