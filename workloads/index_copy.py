"""index_copy onto rows with many writers, where the last one has to win."""

import torch


class Workload:
    def setup(self, device: torch.device) -> None:
        self.index = torch.randint(0, 32, (8192,), device=device)
        target, source = torch.randn(32, 16, device=device), torch.randn(8192, 16, device=device)
        self.inputs = [target.requires_grad_(), source.requires_grad_()]
        self.outputs: list[torch.Tensor] = []

    def step(self) -> torch.Tensor:
        for tensor in self.inputs:
            tensor.grad = None
        target, source = self.inputs
        self.outputs = [target.index_copy(0, self.index, source)]
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
