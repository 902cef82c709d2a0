"""Accumulates into `torch.empty`: strict mode fills it with NaN, so the repeats agree and the loss is not a number."""

import torch


class Workload:
    def setup(self, device):
        self.inputs = torch.randn(64, 4, device=device)

    def step(self):
        self.usage = torch.empty(4, device=self.inputs.device)
        self.usage += self.inputs.sum(0)
        return self.usage.mean()

    def state(self):
        return {"inputs": self.inputs}
