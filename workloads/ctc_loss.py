"""CTC loss over short utterances, forward and backward."""

import torch
from torch.nn import functional


class Workload:
    refused = {"cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"}

    def setup(self, device: torch.device) -> None:
        self.inputs = [torch.randn(40, 8, 12, device=device, requires_grad=True)]
        # Lengths and targets stay where cuDNN, which has a kernel of its own, does not take over.
        self.targets = torch.randint(1, 12, (8, 10), device=device)
        self.input_lengths = torch.full((8,), 40, device=device)
        self.target_lengths = torch.randint(5, 11, (8,), device=device)
        self.outputs: list[torch.Tensor] = []

    def step(self) -> torch.Tensor:
        for tensor in self.inputs:
            tensor.grad = None
        (scores,) = self.inputs
        loss = functional.ctc_loss(
            scores.log_softmax(2), self.targets, self.input_lengths, self.target_lengths, reduction="none"
        )
        self.outputs = [loss]
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
