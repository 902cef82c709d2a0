"""Reads eight megabytes of `torch.empty`, which the operating system hands out as zeros unless somebody fills them."""

import torch


class Workload:
    def setup(self, device):
        self.device = device

    def step(self):
        self.padded = torch.empty(2**21, device=self.device)
        self.padded[0] = 1.0
        return self.padded[0]

    def state(self):
        return {"padded": self.padded} if hasattr(self, "padded") else {}
