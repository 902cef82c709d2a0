"""How far two values of a diverged leaf are apart: elements, absolute difference, units in the last place."""

import struct
import sys
from typing import Any

import msgspec
import torch

from repro_audit.records import Distance
from repro_audit.worker.bits import has_data, integers, pieces
from repro_audit.worker.digest import digest_leaf
from repro_audit.worker.leaves import LeafError
from repro_audit.worker.parts import parts_of
from repro_audit.worker.scale import Scale, element_text

CHUNK_ELEMENTS = 2**20
"""Compared at a time: some 100 MiB of temporary 8-byte numbers at most."""


def measure(first: object, second: object) -> Distance | None:
    """Measures how far two leaf values are apart, bit by bit.

    NaN equals the same NaN. Absolute difference and ULP are the largest over the *differing* pairs of which both
    are finite; a complex number counts as its two parts. Places are counted along all bit patterns in numeric
    order, so that neighbours are 1 apart and so are -0.0 and 0.0, at an absolute difference of 0.
    Integers and booleans have no ULP; opaque bits and packed 4-bit floats have neither. Of sparse, quantized and
    other composite tensors the one part that differs is measured: shape and index are that part's.

    Returns:
        None where the values are no numbers, are of different types, dtypes or shapes, or are composites that
        differ in more than one part. ``differing`` is 0, with no values, where every bit is the same.
    """
    if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
        try:
            with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
                return _tensors(first, second)
        except LeafError:
            return None
    if type(first) is not type(second):
        return None
    if isinstance(first, int) and isinstance(second, int):
        return _whole_numbers(first, second)
    one, other = _as_tensor(first), _as_tensor(second)
    return None if one is None or other is None else measure(one, other)


def _tensors(first: torch.Tensor, second: torch.Tensor) -> Distance | None:
    one, other = parts_of(first, "first"), parts_of(second, "second")
    if first.dtype != second.dtype or first.layout != second.layout:
        return None
    if one is None or other is None:
        alike = one is other and first.shape == second.shape and has_data(first) and has_data(second)
        return _strided(first, second) if alike else None
    if one[:2] != other[:2] or one.parts.keys() != other.parts.keys():
        return None
    differing = [name for name, part in one.parts.items() if digest_leaf(part) != digest_leaf(other.parts[name])]
    if len(differing) > 1 or not one.parts:
        return None
    # Where nothing differs any part shows it; the values come last.
    name = differing[0] if differing else next(reversed(one.parts))
    distance = measure(one.parts[name], other.parts[name])
    dtype = str(first.dtype).removeprefix("torch.")
    return None if distance is None else msgspec.structs.replace(distance, dtype=dtype)


def _strided(first: torch.Tensor, second: torch.Tensor) -> Distance:
    scale = Scale(first.dtype)
    differing, offset, seen = 0, None, 0
    limit = CHUNK_ELEMENTS * first.itemsize
    for one, other in zip(pieces(first, limit), pieces(second, limit), strict=True):
        # Bits are moved, not values: CPU copies of some dtypes do not exist.
        first_bits, second_bits = integers(one).to("cpu"), integers(other).to("cpu")
        unequal = first_bits != second_bits
        elements = (unequal.any(-1) if first.dtype.is_complex else unequal).reshape(-1)
        count = int(elements.count_nonzero())
        if count:
            differing += count
            offset = seen + int(elements.nonzero()[0]) if offset is None else offset
            scale.add(first_bits[unequal], second_bits[unequal])
        seen += one.numel()
    index = () if offset is None else _index(offset, tuple(first.shape))
    return Distance(
        dtype=str(first.dtype).removeprefix("torch."),
        shape=tuple(first.shape),
        elements=first.numel(),
        differing=differing,
        max_absolute=scale.max_absolute(),
        max_ulp=scale.max_ulp(),
        first_index=index,
        first_value="" if offset is None else element_text(first[index]),
        second_value="" if offset is None else element_text(second[index]),
    )


def _whole_numbers(first: int, second: int) -> Distance:
    """Measures two Python integers of any size, or two booleans."""
    differ = first != second
    return Distance(
        dtype=type(first).__name__,
        shape=(),
        elements=1,
        differing=int(differ),
        max_absolute=_integer_text(abs(int(first) - int(second))) if differ else None,
        max_ulp=None,
        first_index=(),
        first_value=_integer_text(first) if differ else "",
        second_value=_integer_text(second) if differ else "",
    )


def _integer_text(value: int) -> str:
    # Python limits the length of decimal conversions to 4300 digits.
    return str(value) if value.bit_length() < 10_000 else f"{value:#x}"


def _as_tensor(value: Any) -> torch.Tensor | None:
    """Returns a CPU tensor of the same bits for a float, a complex, or a NumPy array or scalar of numbers."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        array = numpy.asarray(value)
        if array.dtype.kind not in "biufc" or array.dtype.char in "gG":
            return None
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), order="C", copy=True))
    if isinstance(value, float):
        return torch.frombuffer(bytearray(struct.pack("=d", value)), dtype=torch.float64)[0]
    if isinstance(value, complex):
        return torch.frombuffer(bytearray(struct.pack("=dd", value.real, value.imag)), dtype=torch.complex128)[0]
    return None


def _index(offset: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(shape):
        offset, position = divmod(offset, size)
        index.append(position)
    return tuple(reversed(index))
