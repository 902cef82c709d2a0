"""Ends the process with a code of its own."""

import os

import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)

    def step(self):
        os._exit(7)
        return self.value.sum()

    def state(self):
        return {"value": self.value}
