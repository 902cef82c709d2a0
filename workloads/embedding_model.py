"""Bag-of-words classifier: embedding and embedding bags over words that samples share."""

import torch
from torch import nn


class Workload:
    def setup(self, device: torch.device) -> None:
        self.embedding = nn.Embedding(50, 16).to(device)
        self.bags = nn.ModuleList([nn.EmbeddingBag(50, 16, mode=mode) for mode in ("sum", "mean")]).to(device)
        self.head = nn.Linear(48, 5).to(device)
        modules = (self.embedding, self.bags, self.head)
        self.optimizer = torch.optim.Adagrad([p for module in modules for p in module.parameters()], lr=0.05)
        self.words = torch.randint(0, 50, (1024, 12), device=device)
        self.labels = torch.randint(0, 5, (1024,), device=device)

    def step(self) -> torch.Tensor:
        pooled = [self.embedding(self.words).mean(1), *(bag(self.words) for bag in self.bags)]
        loss = nn.functional.cross_entropy(self.head(torch.cat(pooled, 1)), self.labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def state(self) -> dict[str, object]:
        return {"embedding": self.embedding, "bags": self.bags, "head": self.head, "optimizer": self.optimizer}
