"""What a tracer knows of memory: who wrote it last, whether anybody did, and digests that hold until the next write.

Every function here runs several times an op, so it asks a tensor for nothing twice.
"""

import ctypes
import weakref
from collections.abc import Callable
from typing import Any

import torch
from xxhash import xxh3_128_digest

from repro_audit.trace_file import EXTERNAL, OVERLAPPING, UNDIGESTED, UNINITIALISED, Names
from repro_audit.worker.modes import undisturbed
from repro_audit.worker.trace_tensors import composite_digest, dense_elements, kind_text, logical_digest, overlaps

SMALL_BYTES = 64 * 1024
"""Memory from outside up to this size is read at every use: another library may write to it at any time."""

PARTIAL_BYTES = 64 * 2**20
"""Larger memory that was allocated empty counts as written once any of it is: to know better takes as much again."""

Seen = tuple[int, bytes, int]
"""Number of a tensor's kind, its digest, and flags."""

_EMPTY = b"\0" * 16
"""Stands for the digest of a tensor without elements."""


class _Storage(weakref.ref[torch.UntypedStorage]):
    """What is known of a block of memory, for as long as it is there: PyTorch keeps its Python object as long."""

    __slots__ = ("address", "digests", "external", "initialised", "written")

    address: int
    external: bool
    """Whether no traced op has made or written it."""
    initialised: bool
    """Whether all of it has been written."""
    written: torch.Tensor | None
    """Which of its bytes have been, where some have."""
    digests: dict[Any, list[Any]] | None
    """Place in it, and size or kind, to version counter and digest."""


class _Kind:
    """What tensors of one dtype, shape, strides and class have in common."""

    __slots__ = ("itemsize", "memory_at", "number", "overlapping", "simple", "size")

    def __init__(self, number: int) -> None:
        self.number = number
        """Of its text."""
        self.simple = False
        """Whether it is a piece of memory and nothing else."""
        self.size = -1
        """Bytes that it covers without gaps; -1 where there are some, or on another device than the CPU."""
        self.memory_at: Callable[[int], Any] | None = None
        """Those bytes at an address, to be read while they are not freed."""
        self.itemsize = 1
        self.overlapping = False
        """Whether elements share memory."""


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
        self._kinds: dict[Any, _Kind] = {}

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
        kind = self._kind(tensor)
        storage = self._storage(tensor, True, True) if kind.simple else None
        if storage is None:
            return self._composite(kind, tensor)
        flags = EXTERNAL if storage.external else 0
        if reads and not storage.initialised and kind.size and not _is_written(storage, tensor):
            flags |= UNINITIALISED
        if written and kind.overlapping:
            flags |= OVERLAPPING
        if storage.digests is not None and not self._thorough and not (storage.external and kind.size <= SMALL_BYTES):
            known = storage.digests.get(
                (tensor.storage_offset() * kind.itemsize, kind.size if kind.size >= 0 else kind)
            )
            if known is not None and not (kind.size >= 0 and tensor.is_neg()):
                try:
                    version = tensor._version
                except RuntimeError:  # an inference tensor counts nothing
                    return self._read(kind, flags, tensor, storage)
                if known[0] == version:
                    return kind.number, known[1], flags
                if known[0] in (-2 - version, -1 - version):
                    # Autograd counts a write once the op, at whose end it was digested, has returned to it.
                    known[0] = version
                    return kind.number, known[1], flags
        return self._read(kind, flags, tensor, storage)

    def passed(self, tensor: torch.Tensor, *, written: bool = False) -> Seen:
        """A tensor whose content does not matter: it is only looked at in another way, or overwritten."""
        kind = self._kind(tensor)
        return kind.number, b"", OVERLAPPING if written and kind.overlapping else 0

    def wrote(self, tensor: torch.Tensor, *, in_flight: bool) -> Seen:
        """A tensor that an op has written."""
        kind = self._kind(tensor)
        storage = self._storage(tensor, False, True) if kind.simple else None
        if storage is None:
            return self._composite(kind, tensor)
        storage.digests = None
        storage.external = False
        if not storage.initialised:
            _mark_written(storage, tensor)
        if in_flight:
            return kind.number, b"", UNDIGESTED
        return self._read(kind, 0, tensor, storage, just_written=True)

    def made(self, tensor: torch.Tensor, *, written: bool, digested: bool) -> Seen:
        """A tensor that an op has made.

        Args:
            written: Whether it holds anything yet.
            digested: Whether it is to be read.
        """
        kind = self._kind(tensor)
        storage = self._storage(tensor, False, written) if kind.simple else None
        if storage is None:
            return self._composite(kind, tensor)
        if not digested:
            return kind.number, b"", UNDIGESTED
        storage.external = False
        storage.initialised = True
        return self._read(kind, 0, tensor, storage)

    # ------------------------------------------------------------------ details

    def _kind(self, tensor: torch.Tensor) -> "_Kind":
        try:
            key: Any = (tensor.dtype, tensor.shape, tensor.stride(), tensor.is_cpu, tensor.layout, type(tensor))
        except RuntimeError:  # some sparse and nested tensors have no strides, others zeros for strides
            key = (tensor.dtype, tensor.layout, type(tensor))
        known = self._kinds.get(key)
        if known is None:
            plain = len(key) > 3 and tensor.layout is torch.strided
            known = self._kinds[key] = self._new_kind(tensor, plain=plain)
        return known

    def _new_kind(self, tensor: torch.Tensor, *, plain: bool) -> "_Kind":
        if not plain:
            text = f"{str(tensor.dtype).removeprefix('torch.')} {str(tensor.layout).removeprefix('torch.')}"
            return _Kind(self._names.number(text))
        shape, stride = tuple(tensor.shape), tensor.stride()
        kind = _Kind(self._names.number(kind_text(tensor.dtype, shape, stride, tensor.device.type)))
        # Wrappers have no memory, or not all of it, of their own.
        kind.simple = (
            type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__
            and not tensor.is_quantized
            and not tensor.is_nested
        )
        kind.itemsize = tensor.itemsize
        elements = dense_elements(shape, stride) if tensor.is_cpu and not tensor.is_complex() else -1
        kind.size = elements * tensor.itemsize if elements >= 0 else -1
        if kind.size > 0:
            kind.memory_at = (ctypes.c_char * kind.size).from_address
        kind.overlapping = overlaps(shape, stride)
        return kind

    def _storage(self, tensor: torch.Tensor, external: bool, initialised: bool) -> _Storage | None:
        """What is known of a tensor's memory; None where it has none."""
        try:
            storage: Any = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            return None
        address = storage._cdata
        known = self._storages.get(address)
        if known is None:
            known = self._storages[address] = _Storage(storage, self._gone)
            known.address, known.external, known.initialised = address, external, initialised
            known.written = known.digests = None
        return known

    def _gone(self, storage: _Storage) -> None:
        if self._storages.get(storage.address) is storage:
            del self._storages[storage.address]

    def _read(
        self, kind: "_Kind", flags: int, tensor: torch.Tensor, storage: _Storage, *, just_written: bool = False
    ) -> Seen:
        """Digests a tensor's memory, and remembers that."""
        offset = tensor.storage_offset() * kind.itemsize
        try:
            if kind.size == 0:
                digest = _EMPTY
            elif kind.memory_at is None or tensor.is_neg():
                digest = logical_digest(tensor)
            elif offset + kind.size > tensor.untyped_storage().nbytes():
                return kind.number, b"", flags | UNDIGESTED  # freed
            else:
                digest = xxh3_128_digest(kind.memory_at(tensor.data_ptr()))
            version = -1 if tensor.is_inference() else tensor._version
        except (RuntimeError, NotImplementedError, ValueError):
            return kind.number, b"", flags | UNDIGESTED
        if version >= 0 and not tensor.is_neg():
            if storage.digests is None:
                storage.digests = {}
            key = offset, kind.size if kind.size >= 0 else kind
            storage.digests[key] = [-2 - version if just_written else version, digest]
        return kind.number, digest, flags

    def _composite(self, kind: "_Kind", tensor: torch.Tensor) -> Seen:
        digest = composite_digest(tensor)
        return kind.number, digest, 0 if digest else UNDIGESTED


def _is_written(storage: _Storage, tensor: torch.Tensor) -> bool:
    """Whether all of a tensor lies in memory that has been written; notes it where that is all there is."""
    if storage.written is None:
        return False
    with undisturbed(), torch.inference_mode(False):
        written = bool(_marks(storage, tensor).all())
    if written and tensor.nbytes == tensor.untyped_storage().nbytes():
        storage.initialised, storage.written = True, None
    return written


def _mark_written(storage: _Storage, tensor: torch.Tensor) -> None:
    """Notes that an op has written to a tensor in memory that was allocated empty."""
    whole = tensor.untyped_storage().nbytes()
    if tensor.nbytes >= whole or whole > PARTIAL_BYTES:
        storage.initialised, storage.written = True, None
        return
    with undisturbed(), torch.inference_mode(False):
        _marks(storage, tensor).fill_(True)


def _marks(storage: _Storage, tensor: torch.Tensor) -> torch.Tensor:
    """The marks of a tensor's bytes; elements that share memory have one."""
    whole, known = tensor.untyped_storage().nbytes(), storage.written
    if known is None or known.numel() < whole:
        storage.written = torch.zeros(whole, dtype=torch.bool)
        if known is not None:
            storage.written[: known.numel()] = known
        known = storage.written
    if 0 in tensor.shape:
        return known[:0]
    size = tensor.itemsize
    dimensions = [(n, step * size) for n, step in zip(tensor.shape, tensor.stride(), strict=True) if step]
    shape, stride = zip(*dimensions, (size, 1), strict=True)
    return known.as_strided(shape, stride, tensor.storage_offset() * size)
