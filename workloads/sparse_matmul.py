"""bmm of sparse and dense matrices, forward, and backward to the dense side."""

import torch


class Workload:
    def setup(self, device: torch.device) -> None:
        self.batch = (torch.randn(4, 64, 64, device=device) * (torch.rand(4, 64, 64, device=device) < 0.1)).to_sparse()
        self.inputs = [torch.randn(4, 64, 32, device=device, requires_grad=True)]
        self.outputs: list[torch.Tensor] = []

    def step(self) -> torch.Tensor:
        for tensor in self.inputs:
            tensor.grad = None
        (stack,) = self.inputs
        self.outputs = [torch.bmm(self.batch, stack)]
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
