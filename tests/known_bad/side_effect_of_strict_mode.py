"""Allocates a dtype that strict mode cannot fill: an error of strict mode's making, no refusal."""

import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)

    def step(self):
        torch.empty(4, dtype=torch.uint4)
        self.value += 1
        return self.value.sum()

    def state(self):
        return {"value": self.value}
