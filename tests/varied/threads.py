"""Depends on the thread count: splits its sum as there are threads."""

import torch
from _value import Value


class Workload(Value):
    def value(self):
        parts = (1 / torch.arange(1, 10_001).float()).chunk(torch.get_num_threads())
        total = 0.0
        for part in parts:
            for number in part[::97].tolist():
                total += number * len(parts)
        return total
