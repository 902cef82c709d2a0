"""cumsum over long rows and over one long vector, forward and backward."""

import torch


class Workload:
    # Documented up to 2.13, but CUDA's kernel has raised no alert since it became deterministic.
    refused = {"cuda": "https://docs.pytorch.org/docs/2.13/generated/torch.use_deterministic_algorithms.html"}

    def setup(self, device: torch.device) -> None:
        self.inputs = [torch.randn(4, 20000, device=device, requires_grad=True)]
        self.outputs: list[torch.Tensor] = []

    def step(self) -> torch.Tensor:
        for tensor in self.inputs:
            tensor.grad = None
        (rows,) = self.inputs
        # CUDA scans a single vector with a kernel of its own, the one that was not deterministic.
        self.outputs = [rows.cumsum(1), rows.cumsum(0), rows.flatten().cumsum(0)]
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
