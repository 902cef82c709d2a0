"""Has a leaf in its state that nobody can digest."""

import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)

    def step(self):
        self.value += 1
        return self.value.sum()

    def state(self):
        return {"value": self.value, "connection": object()}
