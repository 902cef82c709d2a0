"""Seeds itself with the time."""

import time

import torch


class Workload:
    def setup(self, device):
        torch.manual_seed(time.time_ns())
        self.weight = torch.randn(8, device=device)

    def step(self):
        self.weight *= 0.9
        return self.weight.square().mean()

    def state(self):
        return {"weight": self.weight}
