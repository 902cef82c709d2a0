"""Switches strict mode off for one op and on again: nothing is to be seen between steps."""

import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)

    def step(self):
        torch.use_deterministic_algorithms(False)
        self.value.put_(torch.tensor([0, 0]), torch.tensor([1.0, 1.0]))
        torch.use_deterministic_algorithms(True)
        return self.value.sum()

    def state(self):
        return {"value": self.value}
