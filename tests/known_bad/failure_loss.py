"""Returns a vector where a loss belongs."""

import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)

    def step(self):
        self.value += 1
        return self.value

    def state(self):
        return {"value": self.value}
