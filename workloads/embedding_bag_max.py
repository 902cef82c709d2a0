"""embedding_bag with max over few words that all bags share, forward and backward."""

import torch
from torch.nn import functional


class Workload:
    refused = {"cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"}

    def setup(self, device: torch.device) -> None:
        self.words = torch.randint(0, 40, (1024, 12), device=device)
        self.inputs = [torch.randn(40, 16, device=device, requires_grad=True)]
        self.outputs: list[torch.Tensor] = []

    def step(self) -> torch.Tensor:
        for tensor in self.inputs:
            tensor.grad = None
        (table,) = self.inputs
        self.outputs = [functional.embedding_bag(self.words, table, mode="max")]
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
