"""Ends a process as Python would, up to where Python takes the interpreter apart.

That part is left out in every process that is observed: it shows nothing of a script any more, and it can crash under
threads of a C++ library that are still at work (https://github.com/python/cpython/issues/87135).
"""

import atexit
import sys
import threading
import traceback


def wind_up() -> None:
    """Waits for threads and runs exit handlers, in Python's order."""
    for part in (threading._shutdown, atexit._run_exitfuncs):  # type: ignore[attr-defined]
        try:
            part()
        except BaseException:  # noqa: BLE001 - Python prints what they raise, and goes on
            traceback.print_exc()


def flush() -> None:
    """Writes out what stands in the buffers of stdout and stderr."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue  # closed or replaced


def exit_code(error: SystemExit) -> int:
    """The process's exit code, as Python takes it from a `SystemExit`; what it says otherwise goes to stderr."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)
    return 1
