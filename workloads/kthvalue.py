"""kthvalue with indices among many equal values, forward and backward."""

import torch


class Workload:
    # Documented up to 2.9; later kernels are deterministic (https://github.com/pytorch/pytorch/pull/165762).
    refused = {"cuda": "https://docs.pytorch.org/docs/2.9/generated/torch.use_deterministic_algorithms.html"}

    def setup(self, device: torch.device) -> None:
        self.inputs = [draw(device).requires_grad_()]
        self.indices = torch.zeros(64, dtype=torch.int64, device=device)

    def step(self) -> torch.Tensor:
        (values,) = self.inputs
        values.grad = None
        found, self.indices = values.kthvalue(300, 1)
        loss = (found * torch.linspace(-1.0, 1.0, 64, device=found.device)).sum()
        loss.backward()
        with torch.no_grad():
            values.copy_(draw(values.device))
        return loss

    def state(self) -> dict[str, object]:
        return {"inputs": self.inputs, "indices": self.indices}


def draw(device: torch.device) -> torch.Tensor:
    """Few distinct values: many positions hold the one that is asked for."""
    return torch.randint(0, 8, (64, 1024), device=device).float()
