"""MLP with layer norm and dropout, cross entropy, Adam and a learning-rate schedule."""

import torch
from torch import nn


class Workload:
    def setup(self, device: torch.device) -> None:
        self.model = nn.Sequential(
            nn.Linear(64, 128), nn.LayerNorm(128), nn.GELU(), nn.Dropout(0.2), nn.Linear(128, 10)
        ).to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=10)
        self.inputs = torch.randn(512, 64, device=device)
        self.targets = torch.randint(0, 10, (512,), device=device)

    def step(self) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self.model(self.inputs), self.targets)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        return loss

    def state(self) -> dict[str, object]:
        return {"model": self.model, "optimizer": self.optimizer, "schedule": self.schedule}
