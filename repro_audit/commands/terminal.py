"""The terminal, or whatever stdout is."""

import sys

from rich.console import Console


def console() -> Console:
    """A console for stdout; what its encoding cannot say is escaped, and no error."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    return Console(highlight=False)
