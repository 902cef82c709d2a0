"""Has no state: two such runs are always equal."""

import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)

    def step(self):
        self.value += 1
        return self.value.sum()

    def state(self):
        return {}
