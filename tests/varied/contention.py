"""Depends on who else is at work: counts the processes of its group."""

import os
from pathlib import Path

from _value import Value


class Workload(Value):
    def value(self):
        return sum(_group(path) == os.getpgid(0) for path in Path("/proc").glob("[0-9]*"))


def _group(process):
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[2])
    except (OSError, ValueError):
        return None
