"""Turns refusals into warnings."""

import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)
        torch.use_deterministic_algorithms(True, warn_only=True)

    def step(self):
        self.value += 1
        return self.value.sum()

    def state(self):
        return {"value": self.value}
