"""Depends on the number of DataLoader workers: each draws with a seed of its own."""

import torch
from _value import Value
from torch.utils.data import DataLoader


class Workload(Value):
    dataloader_workers = 2

    def value(self):
        loader = DataLoader([0.0] * 8, num_workers=self.dataloader_workers, collate_fn=_drawn)
        return torch.cat(list(loader))


def _drawn(samples):
    return torch.rand(len(samples))
