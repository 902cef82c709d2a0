"""Keeps the two ends of a stream that may be endless."""

import os
import threading

HEAD_BYTES = 64 * 1024
TAIL_BYTES = 64 * 1024


class Pump:
    """Reads a file descriptor to its end in a thread, so that the writer never blocks, and keeps head and tail.

    Owns the descriptor. A process that outlived its run may still hold the other end: `finish` does not wait for it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._head = bytearray()
        self._tail = bytearray()
        self._lock = threading.Lock()
        self.total = 0
        self._thread = threading.Thread(target=self._read, name="repro-audit-pump", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            while chunk := os.read(self._descriptor, 1 << 16):
                with self._lock:
                    self.total += len(chunk)
                    room = HEAD_BYTES - len(self._head)
                    self._head += chunk[:room]
                    self._tail += chunk[max(room, 0) :]
                    del self._tail[:-TAIL_BYTES]
        finally:
            os.close(self._descriptor)

    def finish(self, patience_seconds: float = 0.5) -> bytes:
        """What was written, with the middle of an over-long stream replaced by a line that says how much is missing."""
        self._thread.join(patience_seconds)
        with self._lock:
            missing = self.total - len(self._head) - len(self._tail)
            gap = f"\n[... {missing} bytes left out ...]\n".encode() if missing else b""
            return bytes(self._head) + gap + bytes(self._tail)
