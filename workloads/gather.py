"""gather, whose backward adds thousands of gradients into few slots."""

import torch


class Workload:
    def setup(self, device: torch.device) -> None:
        self.index = torch.randint(0, 64, (4096, 16), device=device)
        self.inputs = [torch.randn(64, 16, device=device, requires_grad=True)]
        self.outputs: list[torch.Tensor] = []

    def step(self) -> torch.Tensor:
        for tensor in self.inputs:
            tensor.grad = None
        (table,) = self.inputs
        self.outputs = [table.gather(0, self.index), torch.take_along_dim(table, self.index[:256], 0)]
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
