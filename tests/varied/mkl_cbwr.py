"""Depends on the code path of MKL: a product of matrices of doubles."""

import torch
from _value import Value


class Workload(Value):
    def value(self):
        numbers = 1 / torch.arange(1, 300 * 300 + 1).double().reshape(300, 300)
        return (numbers @ numbers.T).flatten()
