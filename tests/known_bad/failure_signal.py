"""Crashes in native code."""

import ctypes

import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)

    def step(self):
        ctypes.string_at(0)
        return self.value.sum()

    def state(self):
        return {"value": self.value}
