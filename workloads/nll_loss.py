"""Negative log likelihood with class weights, over vectors and over images."""

import torch
from torch.nn import functional


class Workload:
    variants = ("1d", "2d")
    # Documented for both; only the kernel for images raises the alert.
    refused = {
        "1d": {"cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"},
        "2d": {"cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"},
    }

    def __init__(self, variant: str) -> None:
        self.variant = variant

    def setup(self, device: torch.device) -> None:
        shape = (2, 5, 64, 64) if self.variant == "2d" else (4096, 5)
        self.inputs = [torch.randn(shape, device=device, requires_grad=True)]
        self.labels = torch.randint(0, 5, (shape[0], *shape[2:]), device=device)
        self.weights = torch.rand(5, device=device)
        self.outputs: list[torch.Tensor] = []

    def step(self) -> torch.Tensor:
        for tensor in self.inputs:
            tensor.grad = None
        (scores,) = self.inputs
        loss = functional.nll_loss(scores.log_softmax(1), self.labels, weight=self.weights)
        self.outputs = [loss.reshape(1)]
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
