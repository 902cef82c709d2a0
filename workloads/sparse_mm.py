"""Sparse mm, forward, and backward to the dense side; no determinism is promised."""

import torch


class Workload:
    # Not refused, and not made deterministic either: on CUDA strict mode takes cuSPARSE's default algorithm, too
    # (https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/sparse/cuda/SparseCUDABlas.cpp).

    def setup(self, device: torch.device) -> None:
        mask = torch.rand(256, 256, device=device) < 0.05
        self.sparse = (torch.randn(256, 256, device=device) * mask).to_sparse()
        self.inputs = [torch.randn(256, 32, device=device, requires_grad=True)]
        self.outputs: list[torch.Tensor] = []

    def step(self) -> torch.Tensor:
        for tensor in self.inputs:
            tensor.grad = None
        (dense,) = self.inputs
        self.outputs = [torch.sparse.mm(self.sparse, dense)]
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
