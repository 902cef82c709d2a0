"""Adds up in the order of a set of objects, which their addresses decide."""

import torch


class Part:
    def __init__(self, number):
        self.number = number


class Workload:
    def setup(self, device):
        self.parts = {Part(float(number)) for number in range(200)}
        self.order = torch.tensor([part.number for part in self.parts], device=device)

    def step(self):
        return self.order[:20].sum()

    def state(self):
        return {"order": self.order}
