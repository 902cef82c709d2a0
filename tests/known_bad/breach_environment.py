"""Changes a variable that is only read when the process starts."""

import os

import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":0:0"

    def step(self):
        self.value += 1
        return self.value.sum()

    def state(self):
        return {"value": self.value}
