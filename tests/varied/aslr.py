"""Depends on the address layout: on where a library lies."""

import ctypes

from _value import Value


class Workload(Value):
    def value(self):
        return ctypes.cast(ctypes.CDLL(None).malloc, ctypes.c_void_p).value
