"""Whether Linux lays a program out at random addresses, for a process and what it executes.

Source: https://man7.org/linux/man-pages/man2/personality.2.html.
"""

import ctypes
import sys
from pathlib import Path

_NO_RANDOMIZE = 0x0040000
"""``ADDR_NO_RANDOMIZE`` of linux/personality.h."""

_ASK = 0xFFFFFFFF
"""Changes nothing."""

_SYSTEM_WIDE = Path("/proc/sys/kernel/randomize_va_space")


def hold_addresses() -> bool:
    """Has programs that this process executes from now on laid out at the same addresses each time.

    Returns:
        False where the system has no such call, or denies it, as the default profile of some container engines does.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None)
    return bool(libc.personality(libc.personality(_ASK) | _NO_RANDOMIZE) != -1)


def addresses_are_fixed() -> bool:
    """Whether this process has the address layout that any other has."""
    if sys.platform != "linux":
        return False
    if ctypes.CDLL(None).personality(_ASK) & _NO_RANDOMIZE:
        return True
    try:
        return _SYSTEM_WIDE.read_text().strip() == "0"
    except OSError:
        return False
