"""Keeps something under the names that the auditor gives to the loss and to a generator, and it differs."""

import os

import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)

    def step(self):
        self.value = torch.tensor(list(os.urandom(8)))
        return 1.0

    def state(self):
        return {"loss": self.value, "rng": {"torch": "mine"}}
