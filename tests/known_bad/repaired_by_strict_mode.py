"""Keeps the sum of a tensor only where strict mode is off, with the repeat in it: strict mode repairs it."""

import torch

made = [0]


class Workload:
    def setup(self, device):
        made[0] += 1
        self.value = torch.zeros(4, device=device)

    def step(self):
        if not torch.are_deterministic_algorithms_enabled():
            self.value += made[0]
        return self.value.sum()

    def state(self):
        return {"value": self.value}
