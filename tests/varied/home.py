"""Depends on the home folder."""

from pathlib import Path

from _value import Value


class Workload(Value):
    def value(self):
        return list(str(Path.home()).encode())
