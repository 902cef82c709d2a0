"""Switches strict mode off and leaves it off."""

import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)
        torch.use_deterministic_algorithms(False)

    def step(self):
        self.value += 1
        return self.value.sum()

    def state(self):
        return {"value": self.value}
