"""Numbers read out of bits: their order, their distance and their text, for every dtype that has numbers."""

from decimal import Decimal

import torch

from repro_audit.worker.bits import integers

_LOWEST = -(2**63)
_NO_NUMBERS = {"bits8", "bits16", "bits1x8", "bits2x4", "bits4x2", "float4_e2m1fn_x2"}
"""Opaque bits, and two floats packed in a byte."""
_UNSIGNED_FLOATS = {"float8_e8m0fnu"}


class Scale:
    """Collects the largest distances between pairs of numbers of one dtype."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._part = dtype.to_real() if dtype.is_complex else dtype
        self._name = str(self._part).removeprefix("torch.")
        self._absolute: float | int | None = None
        self._half_absolute = 0.0
        self._ulp: int | None = None

    def add(self, first: torch.Tensor, second: torch.Tensor) -> None:
        """Takes the bits of differing pairs, flat integer CPU tensors as `bits.integers` gives them."""
        if self._name in _NO_NUMBERS:
            return
        if not self._part.is_floating_point:
            distance = _largest_gap(self._whole(first), self._whole(second))
            self._absolute = max(distance, self._absolute or 0)
            return
        one, other = first.view(self._part).to(torch.float64), second.view(self._part).to(torch.float64)
        finite = one.isfinite() & other.isfinite()
        if not finite.any():
            return
        one, other = one[finite], other[finite]
        self._absolute = max(float((one - other).abs().max()), self._absolute or 0.0)
        # The difference of two finite numbers may overflow; that of their halves does not.
        self._half_absolute = max(float((one / 2 - other / 2).abs().max()), self._half_absolute)
        gap = _largest_gap(self._places(first[finite]), self._places(second[finite]))
        self._ulp = max(gap, self._ulp or 0)

    def max_absolute(self) -> str | None:
        """Returns the largest absolute difference as decimal text, None where no pair had one."""
        if isinstance(self._absolute, float) and self._absolute == float("inf"):
            return str(Decimal(repr(self._half_absolute)) * 2).lower()
        return None if self._absolute is None else str(self._absolute).removesuffix(".0")

    def max_ulp(self) -> str | None:
        """Returns the largest number of places as decimal text, None where no pair had one."""
        return None if self._ulp is None else str(self._ulp)

    def _places(self, bits: torch.Tensor) -> torch.Tensor:
        """Returns the place of each bit pattern in numeric order, int64; -0.0 stands just below 0.0."""
        if self._name in _UNSIGNED_FLOATS:
            return bits.to(torch.int64)
        signed = bits.view(torch.int8) if bits.dtype == torch.uint8 else bits
        magnitude_mask = 2 ** (8 * signed.itemsize - 1) - 1
        wide = signed.to(torch.int64)
        return torch.where(wide < 0, wide ^ magnitude_mask, wide)

    def _whole(self, bits: torch.Tensor) -> torch.Tensor:
        """Returns integers as int64 in the same order and with the same gaps."""
        if self._name == "uint64":
            return bits.bitwise_xor(_LOWEST)
        if self._name.startswith("int"):
            return (bits.view(torch.int8) if bits.dtype == torch.uint8 else bits).to(torch.int64)
        return bits.to(torch.int64).bitwise_and(_mask(bits))


def _largest_gap(first: torch.Tensor, second: torch.Tensor) -> int:
    """Returns the largest distance between int64 numbers, which may need 64 bits without a sign."""
    gaps = torch.maximum(first, second) - torch.minimum(first, second)
    # The subtraction wraps, so that its bits are the unsigned gap; without its top bit that sorts as signed.
    return int(gaps.bitwise_xor(_LOWEST).max()) - _LOWEST


def _mask(bits: torch.Tensor) -> int:
    return (1 << 8 * bits.itemsize) - 1


def element_text(element: torch.Tensor) -> str:
    """Returns a 0-dim tensor as text: a float as the shortest decimal that reads back as the same, then its bits."""
    part = element.dtype.to_real() if element.dtype.is_complex else element.dtype
    return " + i * ".join(_part_text(bits, part) for bits in integers(element).to("cpu").reshape(-1))


def _part_text(bits: torch.Tensor, dtype: torch.dtype) -> str:
    name = str(dtype).removeprefix("torch.")
    unsigned = int(bits) & _mask(bits)
    hexadecimal = f"0x{unsigned:0{2 * bits.itemsize}x}"
    if name in _NO_NUMBERS:
        return hexadecimal
    if dtype.is_floating_point:
        return f"{_shortest(bits.view(dtype))} ({hexadecimal})"
    if name == "bool":
        return str(bool(unsigned))
    negative = name.startswith("int") and unsigned >> (8 * bits.itemsize - 1)
    return str(unsigned - (1 << 8 * bits.itemsize) if negative else unsigned)


def _shortest(number: torch.Tensor) -> str:
    value = float(number)
    for digits in range(1, 17):
        text = f"{value:.{digits}g}"
        if float(torch.tensor(float(text), dtype=torch.float64).to(number.dtype)) == value:
            return text
    return repr(value)
