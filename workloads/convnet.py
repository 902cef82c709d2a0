"""Convolutional net in two dimensions with batch norm and max pooling, as for small images."""

import torch
from torch import nn


class Workload:
    def setup(self, device: torch.device) -> None:
        # No adaptive average pooling: CUDA's backward of it is refused (see adaptive_pool); a mean does the same.
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.AvgPool2d(2),
        ).to(device)
        self.head = nn.Linear(16, 10).to(device)
        parameters = [*self.features.parameters(), *self.head.parameters()]
        self.optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9, nesterov=True)
        self.images = torch.randn(16, 3, 32, 32, device=device)
        self.labels = torch.randint(0, 10, (16,), device=device)

    def step(self) -> torch.Tensor:
        logits = self.head(self.features(self.images).mean((2, 3)))
        loss = nn.functional.cross_entropy(logits, self.labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def state(self) -> dict[str, object]:
        return {"features": self.features, "head": self.head, "optimizer": self.optimizer}
