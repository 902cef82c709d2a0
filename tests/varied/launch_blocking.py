"""Depends on whether launches block."""

import os

from _value import Value


class Workload(Value):
    def value(self):
        return os.environ.get("CUDA_LAUNCH_BLOCKING") == "1"
