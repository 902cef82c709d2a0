"""Prints without end on both streams."""

import sys

import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)

    def step(self):
        for _ in range(300):
            print("x" * 9_999)
            print("y" * 9_999, file=sys.stderr)
        self.value += 1
        return self.value.sum()

    def state(self):
        return {"value": self.value}
