"""Depends on the folder for temporary files."""

import tempfile

from _value import Value


class Workload(Value):
    def value(self):
        return list(tempfile.gettempdir().encode())
