"""put with accumulate, many additions into few slots, and without, which is refused."""

import torch


class Workload:
    variants = ("accumulate", "overwrite")
    refused = {
        "accumulate": {
            "cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"
        },
        "overwrite": {
            "cpu": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html",
            "cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html",
        },
    }

    def __init__(self, variant: str) -> None:
        self.variant = variant

    def setup(self, device: torch.device) -> None:
        self.index = torch.randint(0, 64, (40_000,), device=device)
        target, source = torch.randn(64, device=device), torch.randn(40_000, device=device)
        self.inputs = [target.requires_grad_(), source.requires_grad_()]
        self.outputs: list[torch.Tensor] = []

    def step(self) -> torch.Tensor:
        for tensor in self.inputs:
            tensor.grad = None
        target, source = self.inputs
        self.outputs = [target.put(self.index, source, accumulate=self.variant == "accumulate")]
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
