"""take, whose backward accumulates through put_."""

import torch


class Workload:
    refused = {"cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"}

    def setup(self, device: torch.device) -> None:
        self.index = torch.randint(0, 64, (40_000,), device=device)
        self.inputs = [torch.randn(64, device=device, requires_grad=True)]
        self.outputs: list[torch.Tensor] = []

    def step(self) -> torch.Tensor:
        for tensor in self.inputs:
            tensor.grad = None
        (table,) = self.inputs
        self.outputs = [table.take(self.index)]
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
