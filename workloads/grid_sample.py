"""grid_sample with a grid that visits few pixels often, forward and backward."""

import torch
from torch.nn import functional


class Workload:
    variants = ("2d", "3d")
    refused = {
        "2d": {"cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"},
        "3d": {"cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"},
    }

    def __init__(self, variant: str) -> None:
        self.variant = variant

    def setup(self, device: torch.device) -> None:
        dimensions = int(self.variant[0])
        images = torch.randn(2, 3, *(6, 12, 12)[-dimensions:], device=device)
        grid = 0.5 * torch.randn(2, *(4, 32, 32)[-dimensions:], dimensions, device=device)
        self.inputs = [images.requires_grad_(), grid.requires_grad_()]
        self.outputs: list[torch.Tensor] = []

    def step(self) -> torch.Tensor:
        for tensor in self.inputs:
            tensor.grad = None
        images, grid = self.inputs
        self.outputs = [functional.grid_sample(images, grid, align_corners=False)]
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
