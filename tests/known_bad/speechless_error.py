"""Raises an error that cannot say its text, from one whose text no JSON can hold."""

import torch


class Speechless(Exception):
    def __str__(self):
        raise TypeError("no words")


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)

    def step(self):
        raise Speechless from ValueError("broken \udc80 name")

    def state(self):
        return {"value": self.value}
