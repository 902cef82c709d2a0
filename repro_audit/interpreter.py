"""What performs tasks in processes of their own, and how such a process ended."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from repro_audit.tasks import Task

ABORT_PATIENCE_SECONDS = 2.0
"""How long a hanging process has to print where it hangs before it is killed."""

# `-P` keeps the current directory off the worker's path, where a user's `random.py` or `torch.py` would be imported;
# the package's own folder is appended for a checkout that is not installed.
_BOOT = "import sys; sys.path.append(sys.argv.pop(1)); from repro_audit.worker.__main__ import main; main()"


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How the process of a task ended."""

    pid: int | None
    exit_code: int | None
    """None where a signal ended it, or where the interpreter was lost."""
    signal: int | None
    timed_out: bool
    lost: str
    """Why the interpreter was lost with the task; empty where it was not."""
    duration_ms: int
    stdout: bytes
    """Bounded, see `pump`."""
    stderr: bytes
    stdout_bytes: int
    """As written, unbounded."""
    stderr_bytes: int


def never_started(reason: str) -> Ended:
    """The end of a task for which no process could be had."""
    return Ended(
        pid=None,
        exit_code=None,
        signal=None,
        timed_out=False,
        lost=reason,
        duration_ms=0,
        stdout=b"",
        stderr=b"",
        stdout_bytes=0,
        stderr_bytes=0,
    )


class Interpreter(Protocol):
    """Performs tasks, each in a process of its own."""

    def start(self) -> None:
        """Begins to warm up without waiting for it."""

    def await_ready(self) -> None:
        """Waits until it is warm.

        Raises:
            LaunchError: It cannot be started at all.
        """

    def perform(self, task: Task, timeout_seconds: float, stdin: int | None = None) -> Ended:
        """Performs a task; whatever the task's process does is a result.

        Args:
            stdin: Descriptor that the process reads as its stdin; None gives it an empty one. Stays the caller's.

        Raises:
            LaunchError: No interpreter can be started at all.
        """

    def close(self) -> None:
        """Kills what still runs."""


FIXED_ADDRESSES = "fixed-addresses"
"""In front of a worker's arguments: it is laid out at the same addresses each time, where the system allows that."""


def worker_command(*arguments: str, fixed_addresses: bool = False) -> list[str]:
    """The command line that starts a worker."""
    package_folder = str(Path(__file__).resolve().parent.parent)
    first = [FIXED_ADDRESSES] if fixed_addresses else []
    return [sys.executable, "-P", "-c", _BOOT, package_folder, *first, *arguments]


def elapsed_ms(start: float) -> int:
    """Milliseconds since a reading of `time.monotonic`."""
    return round((time.monotonic() - start) * 1000)
