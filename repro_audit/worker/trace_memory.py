"""What a tracer knows of memory: who wrote it last, whether anybody did, and digests that hold until the next write.

Every function here runs several times an op, so it asks a tensor for nothing twice.
"""

import weakref
from functools import lru_cache
from typing import Any

import torch
from xxhash import xxh3_128_digest

from repro_audit.trace_file import EXTERNAL, OVERLAPPING, UNDIGESTED, UNINITIALISED, Names
from repro_audit.worker.bits import memory_of
from repro_audit.worker.trace_tensors import composite_digest, dense_elements, kind_text, logical_digest, overlaps

SMALL_BYTES = 64 * 1024
"""Memory from outside up to this size is read at every use: another library may write to it at any time."""

Seen = tuple[int, bytes, int]
"""Number of a tensor's kind, its digest, and flags."""

_EMPTY = b"\0" * 16
"""Stands for the digest of a tensor without elements."""


class _Storage(weakref.ref[torch.UntypedStorage]):
    """What is known of a block of memory, for as long as it is there: PyTorch keeps its Python object as long."""

    __slots__ = ("address", "digests", "external", "initialised")

    address: int
    external: bool
    """Whether no traced op has made or written it."""
    initialised: bool
    """Whether anybody has written it."""
    digests: dict[Any, tuple[int, bytes]] | None
    """Place in it to version counter and digest."""


class Memory:
    """All memory that traced ops have touched and that is still there."""

    def __init__(self, names: Names, *, thorough: bool) -> None:
        """Begins with none.

        Args:
            thorough: Read everything at every use.
        """
        self._names = names
        self._thorough = thorough
        self._storages: dict[int, _Storage] = {}
        self._kinds: dict[tuple[Any, ...], tuple[int, int, bool]] = {}

    def forget(self) -> None:
        """Forgets everything: what happens while nobody traces is not known."""
        self._storages.clear()

    def distrust(self) -> None:
        """Has memory from outside read anew."""
        for storage in self._storages.values():
            if storage.external:
                storage.digests = None

    def took(self, tensor: torch.Tensor, *, reads: bool = True, written: bool = False) -> Seen:
        """A tensor that an op is given.

        Args:
            reads: Whether all of it is read, so that it matters whether anybody has written it.
            written: Whether the op writes to it as well.
        """
        kind, size, overlapping = self._kind(tensor)
        storage = self._storage(tensor)
        if storage is None:
            return self._composite(kind, tensor)
        flags = EXTERNAL if storage.external else 0
        if reads and not storage.initialised:
            flags |= UNINITIALISED
        if written and overlapping:
            flags |= OVERLAPPING
        return self._digested(kind, size, flags, tensor, storage, False)

    def passed(self, tensor: torch.Tensor, *, written: bool = False) -> Seen:
        """A tensor whose content does not matter: it is only looked at in another way, or overwritten."""
        kind, _, overlapping = self._kind(tensor)
        return kind, b"", OVERLAPPING if written and overlapping else 0

    def wrote(self, tensor: torch.Tensor, *, in_flight: bool) -> Seen:
        """A tensor that an op has written."""
        kind, size, _ = self._kind(tensor)
        storage = self._storage(tensor)
        if storage is None:
            return self._composite(kind, tensor)
        storage.digests = None
        storage.external = False
        storage.initialised = True
        if in_flight:
            return kind, b"", UNDIGESTED
        return self._digested(kind, size, 0, tensor, storage, True)

    def made(self, tensor: torch.Tensor, *, written: bool, digested: bool) -> Seen:
        """A tensor that an op has made.

        Args:
            written: Whether it holds anything yet.
            digested: Whether it is to be read.
        """
        kind, size, _ = self._kind(tensor)
        storage = self._storage(tensor, external=False, initialised=written)
        if storage is None:
            return self._composite(kind, tensor)
        if not digested:
            return kind, b"", UNDIGESTED
        storage.external = False
        storage.initialised = True
        return self._digested(kind, size, 0, tensor, storage, False)

    # ------------------------------------------------------------------ details

    def _kind(self, tensor: torch.Tensor) -> tuple[int, int, bool]:
        """Number of a tensor's kind, bytes that it covers without gaps or -1, and whether elements share memory."""
        try:
            key: tuple[Any, ...] = (tensor.dtype, tensor.shape, tensor.stride(), tensor.is_cpu)
        except RuntimeError:  # sparse and nested tensors have no strides
            key = (tensor.dtype, tensor.layout, str(tensor.device), None)
        known = self._kinds.get(key)
        if known is None:
            known = self._kinds[key] = self._new_kind(tensor, plain=key[3] is not None)
        return known

    def _new_kind(self, tensor: torch.Tensor, *, plain: bool) -> tuple[int, int, bool]:
        if not plain:
            text = f"{str(tensor.dtype).removeprefix('torch.')} {str(tensor.layout).removeprefix('torch.')}"
            return self._names.number(text), -1, False
        shape, stride = tuple(tensor.shape), tensor.stride()
        number = self._names.number(kind_text(tensor.dtype, shape, stride, tensor.device.type))
        elements = dense_elements(shape, stride) if tensor.is_cpu else -1
        return number, elements * tensor.itemsize if elements >= 0 else -1, overlaps(shape, stride)

    def _storage(self, tensor: torch.Tensor, external: bool = True, initialised: bool = True) -> _Storage | None:
        """What is known of a tensor's memory; None where it is no simple piece of memory."""
        if not _is_plain(type(tensor)) or tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
            return None
        try:
            storage: Any = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            return None
        address = storage._cdata
        known = self._storages.get(address)
        if known is None:
            known = self._storages[address] = _Storage(storage, self._gone)
            known.address, known.external, known.initialised, known.digests = address, external, initialised, None
        return known

    def _gone(self, storage: _Storage) -> None:
        if self._storages.get(storage.address) is storage:
            del self._storages[storage.address]

    def _digested(
        self, kind: int, size: int, flags: int, tensor: torch.Tensor, storage: _Storage, just_written: bool
    ) -> Seen:
        try:
            version = tensor._version
        except RuntimeError:  # an inference tensor counts nothing
            version = -1
        offset = tensor.storage_offset()
        if size >= 0 and (tensor.is_neg() or tensor.is_conj()):
            size = -1
        key: Any = (offset * tensor.itemsize, size) if size >= 0 else (offset, kind)
        digests = storage.digests
        if digests is None:
            digests = storage.digests = {}
        elif version >= 0 and not self._thorough and not (storage.external and size <= SMALL_BYTES):
            known = digests.get(key)
            if known is not None:
                if known[0] == version:
                    return kind, known[1], flags
                if known[0] in (-2 - version, -1 - version):
                    # Autograd counts a write once the op, at whose end it was digested, has returned to it.
                    digests[key] = version, known[1]
                    return kind, known[1], flags
        try:
            if size < 0:
                digest = logical_digest(tensor)
            elif size == 0:
                digest = _EMPTY
            elif key[0] + size > tensor.untyped_storage().nbytes():
                return kind, b"", flags | UNDIGESTED  # freed
            else:
                digest = xxh3_128_digest(memory_of(tensor.data_ptr(), size))
        except (RuntimeError, NotImplementedError, ValueError):
            return kind, b"", flags | UNDIGESTED
        digests[key] = -2 - version if just_written else version, digest
        return kind, digest, flags

    def _composite(self, kind: int, tensor: torch.Tensor) -> Seen:
        digest = composite_digest(tensor)
        return kind, digest, 0 if digest else UNDIGESTED


@lru_cache
def _is_plain(kind: type[torch.Tensor]) -> bool:
    """Whether tensors of a class are memory and nothing else; wrappers are not."""
    return kind.__torch_dispatch__ is torch.Tensor.__torch_dispatch__
