"""One more number is drawn, and not used yet."""

import torch
from _training import Training


class Workload(Training):
    def go_wrong(self):
        torch.rand(1)
