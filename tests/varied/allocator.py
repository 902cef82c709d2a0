"""Depends on how device memory is given out."""

import os

from _value import Value


class Workload(Value):
    def value(self):
        return [name in os.environ for name in ("PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_CUDA_ALLOC_CONF")]
