"""Depends on the umask: on the permissions of a new file."""

import tempfile
from pathlib import Path

from _value import Value


class Workload(Value):
    def value(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "new"
            path.touch()
            return path.stat().st_mode
