"""What the workloads share: each computes one value, from one property of its process and from nothing else."""

import torch


class Value:
    def setup(self, device):
        self.result = torch.zeros(1)

    def step(self):
        self.result = torch.as_tensor(self.value(), dtype=torch.float64).reshape(-1)
        return 1.0

    def state(self):
        return {"result": self.result}
