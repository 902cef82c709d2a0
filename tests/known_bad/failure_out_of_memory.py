"""Asks for more memory than any machine has."""

import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)

    def step(self):
        self.value = torch.zeros(1 << 46)
        return self.value.sum()

    def state(self):
        return {"value": self.value}
