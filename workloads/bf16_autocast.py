"""Training under bfloat16 autocast with a gradient scaler, whose state is compared, too."""

import torch
from torch import nn


class Workload:
    def setup(self, device: torch.device) -> None:
        self.device_type = device.type
        self.model = nn.Sequential(
            nn.Conv1d(4, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 62, 64), nn.ReLU(), nn.Linear(64, 10)
        ).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.scaler = torch.amp.GradScaler(device.type, init_scale=256.0, growth_interval=2)
        self.inputs = torch.randn(64, 4, 64, device=device)
        self.labels = torch.randint(0, 10, (64,), device=device)

    def step(self) -> torch.Tensor:
        with torch.autocast(self.device_type, dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(self.model(self.inputs), self.labels)
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss

    def state(self) -> dict[str, object]:
        return {"model": self.model, "optimizer": self.optimizer, "scaler": self.scaler}
