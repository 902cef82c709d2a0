"""Switches off the filling of uninitialised memory."""

import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)
        torch.utils.deterministic.fill_uninitialized_memory = False

    def step(self):
        self.value += 1
        return self.value.sum()

    def state(self):
        return {"value": self.value}
