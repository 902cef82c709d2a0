"""Finds the tensors in whatever a user's function takes, returns or saves; never fails on what it does not know."""

import dataclasses
import pickle
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from repro_audit.worker.leaves import LeafError, named_leaves

DEPTH_LIMIT = 8
"""Levels of nesting that are looked into: arguments of modules are flat."""

COUNT_LIMIT = 4096
"""Tensors that are taken from one nest."""


def is_array(value: object) -> bool:
    """Whether it is a tensor, or a NumPy array of numbers."""
    if isinstance(value, torch.Tensor):
        return True
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray) and value.dtype.kind in "biufc"


def tensors_in(value: object, path: str = "", depth: int = DEPTH_LIMIT) -> Iterator[tuple[str, Any]]:
    """Yields path and tensor, or NumPy array, for each in a nest of tuples, lists, mappings and dataclasses."""
    if is_array(value):
        yield path or "0", value
    elif depth > 0:
        children: Any = ()
        if isinstance(value, Mapping):
            children = value.items()
        elif isinstance(value, list | tuple):
            children = enumerate(value)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            children = ((field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value))
        for key, child in children:
            text = key if isinstance(key, str) else repr(key) if isinstance(key, int) else type(key).__name__
            yield from tensors_in(child, f"{path}/{text}" if path else text, depth - 1)


def saved_tensors(value: object) -> dict[str, Any]:
    """All tensors that pickling an object would write, under the names they have in it where these can be told."""
    try:
        found = {path: leaf.value for path, leaf in named_leaves(value).items() if is_array(leaf.value)}
    except (LeafError, RecursionError):
        found = {}
    known = {id(tensor) for tensor in found.values()}
    for number, tensor in enumerate(_pickled_tensors(value)):
        if id(tensor) not in known:
            found[f"tensor {number}"] = tensor
    return dict(list(found.items())[:COUNT_LIMIT])


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, content: bytes) -> int:
        return len(content)


class _Collector(pickle.Pickler):
    """Goes where pickling goes, and stops at tensors."""

    def __init__(self) -> None:
        super().__init__(_Nowhere(), protocol=2)
        self.tensors: list[torch.Tensor] = []

    def persistent_id(self, value: object) -> object:
        if isinstance(value, torch.Tensor):
            self.tensors.append(value)
            return len(self.tensors)
        # Storages and modules of code would be written whole; what they hold is no tensor of the user.
        return 0 if isinstance(value, torch.UntypedStorage | torch.storage.TypedStorage) else None


def _pickled_tensors(value: object) -> list[torch.Tensor]:
    collector = _Collector()
    try:
        collector.dump(value)
    except Exception:  # noqa: BLE001 - what cannot be pickled is the user's to hear of, from `torch.save` itself
        return collector.tensors
    return collector.tensors
