"""Reaches a refused op in the backward of a `put`."""

import torch


class Workload:
    def setup(self, device):
        self.target = torch.zeros(8, device=device, requires_grad=True)
        self.source = torch.randn(4, device=device, requires_grad=True)
        self.indices = torch.tensor([0, 2, 4, 6], device=device)

    def step(self):
        loss = self.target.put(self.indices, self.source, accumulate=True).take(self.indices).square().sum()
        loss.backward()
        return loss

    def state(self):
        return {"target": self.target, "source": self.source}
