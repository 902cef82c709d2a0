"""What a program finds in memory that it has not written yet."""

import ctypes

M_PERTURB = -6
"""Source: malloc.h of glibc, and https://man7.org/linux/man-pages/man3/mallopt.3.html."""

FILLS = (0x3E, 0x41)
"""For the first repeat and for the others: bytes that make finite numbers of every floating dtype.

As float32 they are 0.19 and 12.1.
"""


def fill_new_memory(byte: int) -> bool:
    """Has what the C library allocates filled with a byte, the memory of PyTorch's CPU tensors too.

    Up to about a kilobyte an allocation may come out of a cache as it is: then it holds what was there, or, where it
    was freed since, the complement of the byte.

    Args:
        byte: 1 to 254.

    Returns:
        False where the C library has no such setting; memory then holds whatever it holds.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    # New memory gets the complement of the byte that is given, freed memory the byte itself.
    return bool(set_option(M_PERTURB, byte ^ 0xFF))
