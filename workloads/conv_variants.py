"""Convolutions in one and three dimensions and their transposes, forward and backward."""

import torch
from torch import nn


class Workload:
    variants = ("1d", "3d", "transposed")

    def __init__(self, variant: str) -> None:
        self.variant = variant

    def setup(self, device: torch.device) -> None:
        if self.variant == "1d":
            layers = [nn.Conv1d(8, 16, 5, stride=2), nn.ReLU(), nn.Conv1d(16, 8, 3, groups=2, dilation=2)]
            self.inputs = torch.randn(8, 8, 256, device=device)
        elif self.variant == "3d":
            layers = [nn.Conv3d(2, 8, 3, padding=1), nn.ReLU(), nn.Conv3d(8, 4, 3, stride=2)]
            self.inputs = torch.randn(2, 2, 8, 16, 16, device=device)
        else:
            layers = [
                nn.ConvTranspose1d(4, 8, 4, stride=2),
                nn.Unflatten(1, (8, 1)),
                nn.ConvTranspose2d(8, 4, (2, 3), stride=2),
                nn.Unflatten(2, (2, 1)),
                nn.ConvTranspose3d(4, 2, (1, 2, 3), stride=(1, 2, 1)),
            ]
            self.inputs = torch.randn(4, 4, 64, device=device)
        self.model = nn.Sequential(*layers).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def step(self) -> torch.Tensor:
        loss = self.model(self.inputs).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def state(self) -> dict[str, object]:
        return {"model": self.model, "optimizer": self.optimizer}
