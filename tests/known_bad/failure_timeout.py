"""Hangs."""

import time

import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)

    def step(self):
        time.sleep(3600)
        return self.value.sum()

    def state(self):
        return {"value": self.value}
