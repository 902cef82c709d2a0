"""Leaves a process behind that keeps its streams open."""

import subprocess

import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)

    def step(self):
        subprocess.Popen(["sleep", "600"], start_new_session=True)
        self.value += 1
        return self.value.sum()

    def state(self):
        return {"value": self.value}
