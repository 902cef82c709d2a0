"""A step's loss as text, bits and a leaf to digest."""

import math
import struct
import sys
from typing import Any

import torch

from repro_audit.records import Loss


class LossError(Exception):
    """`step()` returned something that is no loss."""


def read_loss(value: object) -> tuple[Loss, torch.Tensor | float | int]:
    """Takes a returned loss apart.

    Args:
        value: A tensor of one element of a floating or integer dtype, or a Python number.

    Returns:
        The loss for the evidence, and the value to digest.

    Raises:
        LossError: It is neither.
    """
    value = _without_numpy(value)
    if isinstance(value, bool) or not isinstance(value, torch.Tensor | float | int):
        raise LossError(f"step() returned {type(value).__name__}; it must return the loss: a tensor or a number")
    if isinstance(value, torch.Tensor):
        if value.numel() != 1:
            raise LossError(f"step() returned a tensor of shape {tuple(value.shape)}; a loss has one element")
        if value.is_complex() or value.dtype is torch.bool or value.is_quantized or value.layout is not torch.strided:
            raise LossError(f"step() returned a {value.dtype} {value.layout} tensor; a loss is a real number")
        scalar = value.detach().cpu().reshape(1)
        raw = bytes(scalar.view(torch.uint8).tolist())
        number = scalar.item()
        return _loss(number, str(value.dtype).removeprefix("torch."), raw), value.detach()
    raw = struct.pack("<d", value) if isinstance(value, float) else _integer_bytes(value)
    return _loss(value, type(value).__name__, raw), value


def _without_numpy(value: object) -> object:
    """A scalar of NumPy as the tensor of the same bits; anything else as it is."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.generic) or value.dtype.kind not in "iuf":
        return value
    return torch.from_numpy(numpy.asarray(value)) if value.dtype.char != "g" else value


def _integer_bytes(value: int) -> bytes:
    return value.to_bytes(max(8, value.bit_length() // 8 + 1), "little", signed=True)


def _loss(number: float | int, dtype: str, little_endian: bytes) -> Loss:
    return Loss(text=_text(number, dtype), dtype=dtype, bits=f"0x{little_endian[::-1].hex()}", finite=_finite(number))


def _finite(number: float | int) -> bool:
    return isinstance(number, int) or math.isfinite(number)


def _text(number: float | int, dtype: str) -> str:
    if isinstance(number, float) and math.isfinite(number) and dtype == "float32":
        # The shortest decimal that reads back as this float32; repr would give the seventeen digits of a double.
        for digits in range(1, 10):
            text = f"{number:.{digits}g}"
            if struct.pack("<f", float(text)) == struct.pack("<f", number):
                return text
    return repr(number)
