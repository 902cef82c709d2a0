"""Depends on the number of its device."""

import torch
from _value import Value


class Workload(Value):
    def setup(self, device):
        super().setup(device)
        self.device = torch.device(device)

    def value(self):
        return self.device.index or 0
