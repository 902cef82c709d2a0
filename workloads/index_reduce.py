"""index_reduce with prod: many rows into few, forward and backward."""

import torch


class Workload:
    # Not in the documentation's list: the kernel itself raises the alert.
    refused = {"cuda": "https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/cuda/Indexing.cu"}

    def setup(self, device: torch.device) -> None:
        self.index = torch.randint(0, 32, (4096,), device=device)
        # Close to one, so that a product over a row stays finite.
        target, source = torch.ones(32, 16, device=device), 1 + 0.01 * torch.randn(4096, 16, device=device)
        self.inputs = [target.requires_grad_(), source.requires_grad_()]
        self.outputs: list[torch.Tensor] = []

    def step(self) -> torch.Tensor:
        for tensor in self.inputs:
            tensor.grad = None
        target, source = self.inputs
        self.outputs = [target.index_reduce(0, self.index, source, "prod")]
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
