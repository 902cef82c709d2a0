"""Depends on which kernels attention may take."""

import torch
from _value import Value


class Workload(Value):
    def value(self):
        flash, efficient = torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.mem_efficient_sdp_enabled()
        return 2 * flash + efficient
