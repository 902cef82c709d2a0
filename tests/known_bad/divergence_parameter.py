"""One element of a parameter is off by one unit in the last place."""

import torch
from _training import Training


class Workload(Training):
    def go_wrong(self):
        with torch.no_grad():
            self.model[0].weight.view(torch.int32)[1, 2] += 1
