"""Writes what one process of a script shows, observation by observation: a killed process has left them all."""

import os
import threading
from pathlib import Path

import msgspec

from repro_audit.recording import stream_path
from repro_audit.script_records import Observation, StreamItem


class StreamWriter:
    """A file of JSON lines; made with its first item, since most processes of a script show nothing."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.count = 0
        self._path = stream_path(folder, name)
        self._descriptor: int | None = None
        self._encoder = msgspec.json.Encoder()
        self._lock = threading.Lock()

    def write(self, item: StreamItem) -> None:
        """Appends an item: one system call, nothing is buffered."""
        line = self._encoder.encode(item) + b"\n"
        with self._lock:
            if self._descriptor is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._descriptor = os.open(self._path, flags, 0o600)
            os.write(self._descriptor, line)
            if isinstance(item, Observation):
                self.count += 1

    @property
    def begun(self) -> bool:
        """Whether anything was written."""
        return self._descriptor is not None
