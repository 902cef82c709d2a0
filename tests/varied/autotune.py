"""Depends on whether compiled code is tuned."""

import torch
import torch._inductor.config
from _value import Value


class Workload(Value):
    def value(self):
        double = torch.compile(lambda numbers: numbers * 2, backend="eager")
        return double(torch.ones(2)) + torch._inductor.config.max_autotune
