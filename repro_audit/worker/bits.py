"""The bits of a dense tensor: read where they lie if they lie in order, otherwise copied chunk by chunk."""

import ctypes
import sys
from collections.abc import Iterator

import torch

CHUNK_BYTES = 2**20
"""Most that is copied at a time: far larger than what a copy costs to start, and small beside any large state."""

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Item size in bytes to the dtype that bits are moved in. Strict mode fills fresh memory and cannot do so in
sub-byte, ``bits*`` and packed dtypes; half-precision complex warns; moved as integers, none of that happens."""

_PyBUF_READ = 0x100

_memory = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)(
    ("PyMemoryView_FromMemory", ctypes.pythonapi)
)
"""https://docs.python.org/3/c-api/memoryview.html#c.PyMemoryView_FromMemory: no copy, and no need of NumPy."""


def has_data(tensor: torch.Tensor) -> bool:
    """Tells whether every element of a strided tensor lies inside its storage: a freed one would be read as garbage."""
    if tensor.numel() == 0:
        return True
    last = tensor.storage_offset() + sum(
        (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    return (last + 1) * tensor.itemsize <= tensor.untyped_storage().nbytes()


def buffers(tensor: torch.Tensor) -> Iterator[memoryview]:
    """Yields the logical bytes of a strided tensor of any dtype and device, in C order, little-endian.

    Each memory view is valid until the next one is asked for. A contiguous CPU tensor comes as one view of its
    own memory; anything else is copied, at most `CHUNK_BYTES` at a time.
    """
    if tensor.numel() == 0:
        return
    in_place = tensor.device.type == "cpu" and tensor.is_contiguous() and sys.byteorder == "little"
    if in_place and not tensor.is_conj() and not tensor.is_neg():
        yield _view(tensor)
        return
    # One block for all pieces: freshly allocated ones add up, as malloc keeps them for each thread.
    block = torch.empty(min(CHUNK_BYTES, tensor.numel() * tensor.itemsize), dtype=torch.uint8, device="cpu")
    for piece in pieces(tensor, CHUNK_BYTES):
        bits = integers(piece)
        copy = block[: bits.numel() * bits.itemsize].view(bits.dtype).view(bits.shape)
        # non_blocking would hand out memory that the copy has not reached yet.
        copy.copy_(bits, non_blocking=False)
        if sys.byteorder == "big" and copy.itemsize > 1:
            copy = copy.reshape(-1, 1).view(torch.uint8).flip(1).contiguous()
        yield _view(copy)


def pieces(tensor: torch.Tensor, limit: int) -> Iterator[torch.Tensor]:
    """Yields views of at most `limit` bytes that make up `tensor` in C order; equal shapes are cut alike."""
    size = tensor.numel() * tensor.itemsize
    if size <= limit or tensor.dim() == 0:
        yield tensor
        return
    length = tensor.shape[0]
    rows = limit // (size // length)
    if rows == 0:
        for index in range(length):
            yield from pieces(tensor.select(0, index), limit)
        return
    for start in range(0, length, rows):
        yield tensor.narrow(0, start, min(rows, length - start))


def integers(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the bits of a strided tensor as integers of the item's size, on its device.

    Returns:
        uint8, int16, int32 or int64 of the same shape; a complex tensor gets a last dimension of 2, real and
        imaginary part. A view where possible. Conjugate and negative views come resolved.
    """
    tensor = tensor.detach()
    conjugated, negated = tensor.is_conj(), tensor.is_neg()
    if negated and not (tensor.is_floating_point() or tensor.is_complex()):
        tensor, negated = tensor.resolve_neg(), False
    if conjugated:
        tensor = tensor.conj()
    if negated:
        tensor = torch._neg_view(tensor)
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    bits = tensor.view(_INTEGERS[tensor.itemsize])
    sign = -(2 ** (8 * bits.itemsize - 1)) if bits.dtype != torch.uint8 else 0x80
    if negated:
        bits = bits ^ torch.tensor(sign, dtype=bits.dtype, device=bits.device)
    if conjugated:
        bits = bits ^ torch.tensor([0, sign], dtype=bits.dtype, device=bits.device)
    return bits


def memory_of(address: int, size: int) -> memoryview:
    """Memory of this process, read only, and only valid for as long as it is not freed.

    Args:
        size: In bytes.
    """
    view: memoryview = _memory(address, size, _PyBUF_READ)
    return view


def _view(tensor: torch.Tensor) -> memoryview:
    return memory_of(tensor.data_ptr(), tensor.numel() * tensor.itemsize)
