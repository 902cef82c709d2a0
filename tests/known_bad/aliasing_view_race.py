"""Adds in place to a view whose elements alias each other: threads race, and strict mode says nothing.

Source: https://github.com/pytorch/pytorch/issues/50750
"""

import torch


class Workload:
    def setup(self, device):
        self.patches = torch.randn(2000, 2000, device=device)

    def step(self):
        self.signal = torch.zeros(3999, device=self.patches.device)
        self.signal.as_strided((2000, 2000), (1, 1)).add_(self.patches)
        return self.signal.square().mean()

    def state(self):
        return {"signal": getattr(self, "signal", None)}
