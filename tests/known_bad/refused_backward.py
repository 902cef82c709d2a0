"""Reaches a refused op twice: in the forward of a `put`, and again in its backward."""

import torch


class Workload:
    def setup(self, device):
        self.target = torch.zeros(8, device=device, requires_grad=True)
        self.source = torch.randn(4, device=device, requires_grad=True)
        self.indices = torch.tensor([0, 2, 4, 6], device=device)

    def step(self):
        loss = self.target.put(self.indices, self.source).square().sum()
        loss.backward()
        return loss

    def state(self):
        return {"target": self.target, "source": self.source}
