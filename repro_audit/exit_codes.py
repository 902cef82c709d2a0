"""What the exit code of a command says."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Each means one thing; a finding outranks an incomplete audit."""

    VERIFIED = 0
    FINDING = 1
    USAGE = 2
    INCOMPLETE = 3
    NOTHING = 5
    INTERRUPTED = 130


WORKER_CRASHED = 70
"""A worker's exit code where it failed itself, and not its workload (EX_SOFTWARE in sysexits.h)."""
