"""Dense products: mm, bmm, addmm, baddbmm, einsum, mv, dot, forward and backward."""

import torch


class Workload:
    def setup(self, device: torch.device) -> None:
        left, right = torch.randn(192, 160, device=device), torch.randn(160, 128, device=device)
        batch, other = torch.randn(8, 48, 64, device=device), torch.randn(8, 64, 32, device=device)
        self.inputs = [tensor.requires_grad_() for tensor in (left, right, batch, other)]
        self.outputs: list[torch.Tensor] = []

    def step(self) -> torch.Tensor:
        for tensor in self.inputs:
            tensor.grad = None
        left, right, batch, other = self.inputs
        products = torch.bmm(batch, other)
        self.outputs = [
            torch.mm(left, right),
            torch.addmm(left[:, :128], left, right),
            products,
            torch.baddbmm(products, batch, other),
            torch.einsum("bij,bjk,kl->il", batch, other, right[:32]),
            torch.mv(left, right[:, 0]),
            torch.dot(left.flatten()[:20480], right.flatten()).reshape(1),
        ]
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
