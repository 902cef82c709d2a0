"""Reaches an op that strict mode refuses."""

import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)

    def step(self):
        self.value.put_(torch.tensor([0, 0]), torch.tensor([1.0, 2.0]))
        return self.value.sum()

    def state(self):
        return {"value": self.value}
