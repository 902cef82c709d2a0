"""Seeds itself with the process id: repeats in one process agree, fresh processes never do."""

import os

import torch


class Workload:
    def setup(self, device):
        torch.manual_seed(os.getpid())
        self.weight = torch.randn(8, device=device)

    def step(self):
        self.weight *= 0.9
        return self.weight.square().mean()

    def state(self):
        return {"weight": self.weight}
