"""Depends on where an array lies."""

import numpy
from _value import Value


class Workload(Value):
    def value(self):
        return numpy.ones(100_000).ctypes.data % 16
