"""Transformer encoder layers with scaled dot-product attention, dropout and AdamW."""

import torch
from torch import nn


class Workload:
    def setup(self, device: torch.device) -> None:
        layer = nn.TransformerEncoderLayer(64, 4, dim_feedforward=128, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).to(device)
        self.embedding = nn.Embedding(100, 64).to(device)
        self.head = nn.Linear(64, 100).to(device)
        modules = (self.encoder, self.embedding, self.head)
        self.optimizer = torch.optim.AdamW([p for module in modules for p in module.parameters()], lr=1e-3)
        self.tokens = torch.randint(0, 100, (8, 33), device=device)
        self.mask = nn.Transformer.generate_square_subsequent_mask(32, device=device)

    def step(self) -> torch.Tensor:
        hidden = self.encoder(self.embedding(self.tokens[:, :-1]), mask=self.mask, is_causal=True)
        loss = nn.functional.cross_entropy(self.head(hidden).flatten(0, 1), self.tokens[:, 1:].flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def state(self) -> dict[str, object]:
        return {
            "encoder": self.encoder,
            "embedding": self.embedding,
            "head": self.head,
            "optimizer": self.optimizer,
        }
