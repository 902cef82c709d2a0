"""Ends the process as if all were well, before anything was recorded."""

import os

import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)

    def step(self):
        os._exit(0)
        return self.value.sum()

    def state(self):
        return {"value": self.value}
