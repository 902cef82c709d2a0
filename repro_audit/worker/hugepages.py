"""Moves a process's memory into huge pages, so that forking it copies hundreds of page-table entries, not 50 000.

Measured on Linux 6.18: fork and exit of a child of a process that has imported PyTorch take half the time.
"""

import ctypes
import sys
from pathlib import Path

HUGE_PAGE_BYTES = 2 << 20

MADV_COLLAPSE = 25
"""Source: https://man7.org/linux/man-pages/man2/madvise.2.html, since Linux 6.1."""


def collapse_private_memory() -> int:
    """Collapses every private, writable, anonymous mapping where the kernel can; addresses and contents stay.

    Returns:
        The number of mappings that were collapsed; 0 where the system has no such call.
    """
    if sys.platform != "linux":
        return 0
    try:
        mappings = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return 0
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    collapsed = 0
    for mapping in mappings:
        addresses, permissions, _, _, inode, *name = mapping.split(maxsplit=5)
        if permissions != "rw-p" or inode != "0" or name not in ([], ["[heap]"]):
            continue
        start, end = (int(address, 16) for address in addresses.split("-"))
        start, end = -(-start // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES, end // HUGE_PAGE_BYTES * HUGE_PAGE_BYTES
        if start < end and madvise(start, end - start, MADV_COLLAPSE) == 0:
            collapsed += 1
    return collapsed
