"""Has NumPy place arrays at chosen addresses, relative to the boundaries that vector instructions prefer.

Source: https://numpy.org/neps/nep-0049.html: a handler is a capsule around functions that give and take memory.
"""

import ctypes
import sys
from typing import Any

BOUNDARY_BYTES = 64
"""A cache line, and the width of AVX-512."""

_SET_HANDLER = 304
"""Index of ``PyDataMem_SetHandler`` in NumPy's C API: ``numpy/__multiarray_api.h``, since NumPy 1.22."""

_NAME_BYTES = 127

_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_CLEARED = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
_RESIZE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class _Allocator(ctypes.Structure):
    _fields_ = (
        ("context", ctypes.c_void_p),
        ("malloc", _ALLOCATE),
        ("calloc", _CLEARED),
        ("realloc", _RESIZE),
        ("free", _FREE),
    )


class _Handler(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char * _NAME_BYTES), ("version", ctypes.c_uint8), ("allocator", _Allocator))


_kept: list[object] = []
"""What NumPy holds pointers to, for as long as the process lives."""


def align_arrays(offset: int) -> None:
    """Places the data of every NumPy array made from now on so many bytes past a boundary of `BOUNDARY_BYTES`.

    Args:
        offset: 0 to 60 bytes, a multiple of 4.

    Raises:
        RuntimeError: NumPy was not imported.
    """
    multiarray: Any = sys.modules.get("numpy._core._multiarray_umath") or sys.modules.get(
        "numpy.core._multiarray_umath"
    )
    if multiarray is None:
        raise RuntimeError("NumPy was not imported, so that there are no arrays to place")
    libc = ctypes.CDLL(None)
    libc.posix_memalign.argtypes = (ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_size_t)
    libc.malloc_usable_size.argtypes = (ctypes.c_void_p,)
    libc.malloc_usable_size.restype = ctypes.c_size_t
    libc.free.argtypes = (ctypes.c_void_p,)

    def malloc(_: object, size: int) -> int | None:
        place = ctypes.c_void_p()
        if libc.posix_memalign(ctypes.byref(place), BOUNDARY_BYTES, size + BOUNDARY_BYTES) or place.value is None:
            return None
        return place.value + offset

    def calloc(context: object, count: int, size: int) -> int | None:
        address = malloc(context, count * size)
        if address is not None:
            ctypes.memset(address, 0, count * size)
        return address

    def free(_: object, address: int | None, __: int) -> None:
        if address is not None:
            libc.free(address - offset)

    def realloc(context: object, address: int | None, size: int) -> int | None:
        moved = malloc(context, size)
        if address is not None and moved is not None:
            held = libc.malloc_usable_size(address - offset) - offset
            ctypes.memmove(moved, address, min(held, size))
            free(context, address, 0)
        return moved

    allocator = _Allocator(None, _ALLOCATE(malloc), _CLEARED(calloc), _RESIZE(realloc), _FREE(free))
    handler = _Handler(b"repro_audit", 1, allocator)
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    capsule_of = ctypes.pythonapi.PyCapsule_New
    capsule_of.restype, capsule_of.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    name = ctypes.c_char_p(b"mem_handler")
    table = ctypes.cast(pointer_of(multiarray._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    capsule = capsule_of(ctypes.addressof(handler), name, None)
    _kept.extend((allocator, handler, name, capsule))
    ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER])(capsule)
