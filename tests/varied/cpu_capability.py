"""Depends on the CPU capability: the vectorised generator of normal numbers draws in another order."""

import torch
from _value import Value


class Workload(Value):
    def value(self):
        return torch.randn(1000)
