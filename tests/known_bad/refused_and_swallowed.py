"""Reaches a refused op, catches the error, and goes on without it."""

import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)

    def step(self):
        try:
            self.value.put_(torch.tensor([0, 0]), torch.tensor([1.0, 2.0]))
        except RuntimeError:
            self.value += 1
        return self.value.sum()

    def state(self):
        return {"value": self.value}
