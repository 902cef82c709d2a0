"""What a trace says of a tensor: its kind, its layout in memory, and its bits where they lie in no simple order."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from xxhash import xxh3_128, xxh3_128_digest

from repro_audit.worker.bits import buffers
from repro_audit.worker.digest import digest_leaf
from repro_audit.worker.leaves import LeafError


def dense_elements(shape: Sequence[int], stride: Sequence[int]) -> int:
    """Number of elements of a tensor that fills a piece of memory without gaps, in whatever order of dimensions.

    Returns:
        -1 where there are gaps, or elements that share memory.
    """
    expected = 1
    for size, step in sorted(zip(shape, stride, strict=True), key=lambda pair: (pair[1], pair[0])):
        if size == 0:
            return 0
        if size > 1:
            if step != expected:
                return -1
            expected *= size
    return expected


def overlaps(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether elements of a tensor share memory, as in an expanded tensor or in overlapping windows.

    True also for some layouts that interleave without sharing, which no function of PyTorch makes.
    """
    if 0 in shape:
        return False
    extent = 1
    for size, step in sorted(zip(shape, stride, strict=True), key=lambda pair: pair[1]):
        if size > 1:
            if step < extent:
                return True
            extent += (size - 1) * step
    return False


def kind_text(dtype: torch.dtype, shape: Sequence[int], stride: Sequence[int] | None, device: str) -> str:
    """Dtype, shape, and strides and device where they are not the usual ones, as in ``float32[2, 3]``."""
    text = f"{str(dtype).removeprefix('torch.')}{list(shape)}"
    usual = [1] * len(shape)
    for position in range(len(shape) - 2, -1, -1):
        usual[position] = usual[position + 1] * max(shape[position + 1], 1)
    if stride is not None and any(
        size > 1 and step != wanted for size, step, wanted in zip(shape, stride, usual, strict=True)
    ):
        text += f" strides {list(stride)}"
    return text if device == "cpu" else f"{text} on {device}"


def logical_digest(tensor: torch.Tensor) -> bytes:
    """xxh3_128 of a strided tensor's bytes in C order, wherever they lie; what an expanded one repeats is read once."""
    for dimension, (size, step) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if step == 0 and size > 1:
            tensor = tensor.narrow(dimension, 0, 1)
    hasher = xxh3_128()
    for buffer in buffers(tensor.detach()):
        hasher.update(buffer)
    return hasher.digest()


def composite_digest(tensor: torch.Tensor) -> bytes:
    """The same for a tensor that is made of several: sparse, quantized, nested, wrapped. Empty where it has no bits."""
    try:
        return xxh3_128_digest(digest_leaf(tensor).encode())
    except (LeafError, RuntimeError, NotImplementedError, TypeError):
        return b""


def generator_digest(values: Sequence[Any]) -> bytes:
    """xxh3_128 of the state of the generator that an op draws from.

    Args:
        values: The op's arguments: a generator of its own, or tensors and devices that tell whose default it takes.
    """
    device: torch.device | None = None
    for value in values:
        if isinstance(value, torch.Generator):
            return logical_digest(value.get_state())
        if isinstance(value, torch.device):
            device = value
        elif isinstance(value, torch.Tensor) and device is None:
            device = value.device
    if device is not None and device.type == "cuda":
        index: int | None = device.index
        current = torch.cuda.current_device() if index is None else index
        return logical_digest(torch.cuda.default_generators[current].get_state())
    return logical_digest(torch.default_generator.get_state())


def store_outputs(save: Callable[..., None], result: Any, written: Sequence[torch.Tensor], path: Path) -> None:
    """Stores what an op gave, or wrote where it gives nothing new, for measuring how far it is from another run's.

    Args:
        save: `torch.save`, as it was before anybody listened to it.
    """
    values = result if isinstance(result, list | tuple) else (result,)
    tensors = list(written) or [value for value in values if isinstance(value, torch.Tensor)]
    if tensors:
        # Of several, the distance of the first is measured.
        save(tensors[0].detach().clone(), path)
