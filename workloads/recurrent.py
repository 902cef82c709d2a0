"""Recurrent nets: LSTM with dropout between its layers, bidirectional GRU."""

import torch
from torch import nn


class Workload:
    variants = ("lstm", "gru")

    def __init__(self, variant: str) -> None:
        self.variant = variant

    def setup(self, device: torch.device) -> None:
        if self.variant == "lstm":
            self.body = nn.LSTM(16, 32, num_layers=2, dropout=0.2, batch_first=True).to(device)
            self.head = nn.Linear(32, 1).to(device)
        else:
            self.body = nn.GRU(16, 32, bidirectional=True, batch_first=True).to(device)
            self.head = nn.Linear(64, 1).to(device)
        self.optimizer = torch.optim.Adam([*self.body.parameters(), *self.head.parameters()], lr=1e-2)
        self.inputs = torch.randn(16, 8, 16, device=device)
        self.targets = torch.randn(16, 1, device=device)

    def step(self) -> torch.Tensor:
        outputs, _ = self.body(self.inputs)
        loss = nn.functional.mse_loss(self.head(outputs[:, -1]), self.targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def state(self) -> dict[str, object]:
        return {"body": self.body, "head": self.head, "optimizer": self.optimizer}
