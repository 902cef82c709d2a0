"""scatter_reduce in every reduction, many values into few slots, forward and backward."""

import torch


class Workload:
    variants = ("sum", "mean", "amin", "amax", "prod")
    refused = {
        "prod": {"cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"}
    }

    def __init__(self, variant: str) -> None:
        self.variant = variant

    def setup(self, device: torch.device) -> None:
        self.index = torch.randint(0, 64, (4096, 16), device=device)
        # Close to one, so that a product over a slot stays finite.
        target, source = torch.ones(64, 16, device=device), 1 + 0.01 * torch.randn(4096, 16, device=device)
        self.inputs = [target.requires_grad_(), source.requires_grad_()]
        self.outputs: list[torch.Tensor] = []

    def step(self) -> torch.Tensor:
        for tensor in self.inputs:
            tensor.grad = None
        target, source = self.inputs
        self.outputs = [target.scatter_reduce(0, self.index, source, reduce=self.variant)]
        loss = sum((output * weight_like(output)).sum() for output in self.outputs)
        loss.backward()
        with torch.no_grad():
            for tensor in self.inputs:
                tensor -= 1e-4 * tensor.grad
        return loss

    def state(self) -> dict[str, object]:
        return {"inputs": self.inputs, "outputs": self.outputs}


def weight_like(output: torch.Tensor) -> torch.Tensor:
    """Weights that make every element's gradient another one, so that an order of additions shows."""
    return torch.linspace(-1.0, 1.0, output.numel(), device=output.device).reshape(output.shape)
