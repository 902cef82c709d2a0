"""What to do with a stdout whose reader has left."""

import os
import sys


def abandon_stdout() -> None:
    """Lets the rest of the output go nowhere: Python would complain once more when it flushes at exit."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, sys.stdout.fileno())
    os.close(descriptor)
