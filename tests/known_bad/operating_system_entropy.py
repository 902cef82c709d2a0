"""Augments with a NumPy generator of its own, which no global seed reaches."""

import numpy as np
import torch


class Workload:
    def setup(self, device):
        self.generator = np.random.default_rng()
        self.model = torch.nn.Linear(6, 1).to(device)
        self.inputs = torch.randn(32, 6, device=device)

    def step(self):
        noise = torch.from_numpy(self.generator.normal(0, 0.05, (32, 6)).astype("float32"))
        return (self.model(self.inputs + noise.to(self.inputs.device)) - 1).square().mean()

    def state(self):
        return {"model": self.model}
