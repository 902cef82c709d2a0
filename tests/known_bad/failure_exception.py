"""Raises in its second step."""

import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)

    def step(self):
        if self.value[0] == 1:
            raise ValueError("the second batch is broken")
        self.value += 1
        return self.value.sum()

    def state(self):
        return {"value": self.value}
