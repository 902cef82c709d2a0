"""Remembers which files outside its working directory a script opened: what one run leaves there, the next may read."""

import os
import sys
import threading
from typing import Any

from repro_audit.script_records import FileUse
from repro_audit.worker.observation.observer import Paths
from repro_audit.worker.source_lines import line_of_stack

LIMIT = 10_000
"""Files that are remembered of each kind."""

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_UNTOLD = ("/dev/", "/proc/", "/sys/", "/usr/", "/lib/", "/etc/", "/opt/")

WRITTEN = "repro_audit.written"
"""The event by which the observer tells of a file that PyTorch writes without Python's `open`."""

_EVENTS = frozenset({"open", "os.rename", "os.link", WRITTEN})
"""Source: https://docs.python.org/3/library/audit_events.html"""

_CACHES = ("__pycache__", "torchinductor_", "site-packages", "dist-packages", "/.triton/", "/.cache/", ".pyc")
"""Where caches of compiled code lie, which make nothing but speed."""


class Files:
    """What was written and what was read."""

    def __init__(self, paths: Paths, working_directory: str) -> None:
        self._paths = paths
        self._inside = working_directory + os.sep
        self._written: dict[str, str] = {}
        self._read: dict[str, str] = {}
        self._local = threading.local()

    def watch(self) -> None:
        """Begins, for good."""
        sys.addaudithook(self._audited)

    @property
    def written(self) -> tuple[FileUse, ...]:
        """Files that were opened for writing, with the first line that did."""
        return tuple(FileUse(path=path, line=line) for path, line in self._written.items())

    @property
    def read(self) -> tuple[FileUse, ...]:
        """Files that were opened for reading, not counting those that this run wrote itself before."""
        return tuple(FileUse(path=path, line=line) for path, line in self._read.items())

    def _audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _EVENTS or getattr(self._local, "busy", False):
            return
        self._local.busy = True  # finding the line reads the source
        try:
            if event == "open":
                self._opened(*arguments)
            else:
                self._opened(arguments[0 if event == WRITTEN else 1], None, os.O_WRONLY)
        finally:
            self._local.busy = False

    def _opened(self, name: object, _: object, flags: int | None) -> None:
        if not isinstance(name, str | bytes | os.PathLike):
            return
        path = os.path.abspath(os.fsdecode(name))
        if path.startswith((self._inside, *_UNTOLD)) or any(mark in path for mark in _CACHES):
            return
        written = bool((flags or 0) & _WRITING)
        kept = self._written if written else self._read
        if path in kept or len(kept) >= LIMIT or (not written and path in self._written):
            return
        line = line_of_stack(sys._getframe(1))
        if line is not None:
            kept[path] = self._paths.line(line)
