"""Forks, and lets the child return into the auditor."""

import os

import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)

    def step(self):
        os.fork()
        self.value += 1
        return self.value.sum()

    def state(self):
        return {"value": self.value}
