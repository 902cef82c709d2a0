"""Breaks the library that the auditor writes its record with."""

import msgspec
import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)

    def step(self):
        msgspec.json.encode = lambda *_, **__: b"{"
        self.value += 1
        return self.value.sum()

    def state(self):
        return {"value": self.value}
