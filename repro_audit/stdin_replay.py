"""Gives every run of a script the same stdin: what the first ones read is kept, and read again by the others."""

import os
import select
import stat
import threading
from pathlib import Path

CHUNK_BYTES = 1 << 16


class StdinReplay:
    """Feeds one run after the other, each from the beginning.

    What a run asks for beyond what was kept is read from the real stdin, which may be a terminal, or never end; it is
    kept for the runs that follow.
    """

    def __init__(self, spool: Path, source: int | None = 0) -> None:
        """Looks at the source without reading from it.

        Args:
            spool: Where to keep what was read.
            source: Descriptor of the real stdin; None, or a closed one, is an empty one.
        """
        self._spool = spool
        self._source = source if source is not None and _is_there(source) else None
        self._exhausted = self._source is None
        self._feeder: threading.Thread | None = None
        self._stop: int | None = None
        spool.touch()

    def next_run(self) -> int:
        """A descriptor to read, for the next run; the caller closes it once the run has it."""
        if self._exhausted and self._spool.stat().st_size == 0:
            return os.open(os.devnull, os.O_RDONLY)
        if self._exhausted:
            return os.open(self._spool, os.O_RDONLY)
        reader, writer = os.pipe()
        stopped, self._stop = os.pipe()
        self._feeder = threading.Thread(
            target=self._feed, args=(writer, stopped), name="repro-audit-stdin", daemon=True
        )
        self._feeder.start()
        return reader

    def finish_run(self) -> None:
        """Ends the feeding of the run that is over."""
        if self._stop is not None:
            os.close(self._stop)
            self._stop = None
        if self._feeder is not None:
            self._feeder.join()
            self._feeder = None

    def close(self) -> None:
        """Ends everything; the real stdin stays open."""
        self.finish_run()

    def _feed(self, writer: int, stopped: int) -> None:
        try:
            os.set_blocking(writer, False)
            with self._spool.open("rb") as kept:
                while chunk := kept.read(CHUNK_BYTES):
                    if not _write(writer, chunk, stopped):
                        return
            while self._source is not None and not self._exhausted:
                # Read no further than the run does: a terminal asks, and an endless source has no end.
                if not _wait(writer, stopped, writing=True) or not _wait(self._source, stopped, writing=False):
                    return
                chunk = os.read(self._source, CHUNK_BYTES)
                if not chunk:
                    self._exhausted = True
                    return
                with self._spool.open("ab") as kept:
                    kept.write(chunk)
                if not _write(writer, chunk, stopped):
                    return
        except OSError:
            return  # the run has closed its stdin, or the terminal is gone
        finally:
            os.close(writer)
            os.close(stopped)


def _is_there(descriptor: int) -> bool:
    """Whether there is anything to read, now or later."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return False
    return not (stat.S_ISCHR(status.st_mode) and status.st_rdev == os.stat(os.devnull).st_rdev)


def _wait(descriptor: int, stopped: int, *, writing: bool) -> bool:
    """Waits until a descriptor can be written to or read from; False where the run is over."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT if writing else select.POLLIN)
    poll.register(stopped, select.POLLIN)
    events = dict(poll.poll())
    if stopped in events:
        return False
    return not (writing and events.get(descriptor, 0) & select.POLLERR)


def _write(writer: int, chunk: bytes, stopped: int) -> bool:
    """Writes all of a chunk as the run reads it; False where it reads no more."""
    view = memoryview(chunk)
    while view:
        if not _wait(writer, stopped, writing=True):
            return False
        view = view[os.write(writer, view) :]
    return True
