"""Depends on the order in which a folder is listed."""

from pathlib import Path

import torch
from _value import Value


class Workload(Value):
    def value(self):
        names = [path.name for path in (Path(torch.__file__).parent / "optim").glob("*.py")]
        return [sum(name.encode()) for name in names]
