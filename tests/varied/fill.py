"""Depends on the fill: reads a tensor that nobody wrote."""

import torch
from _value import Value


class Workload(Value):
    def value(self):
        return torch.empty(1000).isnan()
