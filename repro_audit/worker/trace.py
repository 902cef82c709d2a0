"""Records every op that reaches the dispatcher: what it was, whose, and digests of what it took and gave.

Digests are taken of a tensor's memory once, and again when it was written: what a traced op writes is known from its
schema, what others write from the version counter. Memory from outside is not trusted for longer than from one mark to
the next. Nothing keeps a tensor alive: storages are held by weak references.
"""

import os
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from xxhash import xxh3_128_digest

from repro_audit.trace_file import EXTERNAL, MARK, OVERLAPPING, UNDIGESTED, UNINITIALISED, TraceWriter
from repro_audit.worker.bits import memory_of
from repro_audit.worker.source_lines import rank_of, recomputed_line
from repro_audit.worker.trace_modules import ModulePaths
from repro_audit.worker.trace_ops import Op, describe, is_training
from repro_audit.worker.trace_tensors import (
    composite_digest,
    dense_elements,
    generator_digest,
    kind_text,
    logical_digest,
    overlaps,
    store_outputs,
)

SMALL_BYTES = 64 * 1024
"""Memory from outside up to this size is read at every use: another library may write to it at any time."""

PURGE_AT = 4096
"""Storages that are remembered before the dead ones are looked for."""

FORWARD_LIMIT = 200_000
"""Forward ops whose lines are remembered for their backward ops."""

_free: Any = torch.UntypedStorage._free_weak_ref
_expired: Any = torch.UntypedStorage._expired


class _Storage:
    """What is known of a block of memory."""

    __slots__ = ("digests", "external", "initialised", "reference")

    def __init__(self, reference: int, *, external: bool, initialised: bool) -> None:
        self.reference = reference
        """A weak reference: while it is held, no other storage has the same address."""
        self.external = external
        self.initialised = initialised
        self.digests: dict[Any, tuple[int, bytes]] = {}

    def __del__(self) -> None:
        _free(self.reference)


class Tracer:
    """Traces the ops of one thread, from `start` to `stop`, as often as wanted, into one file."""

    def __init__(
        self,
        path: Path,
        *,
        module: str | None = None,
        fetch: tuple[int, Path] | None = None,
        thorough: bool = False,
        shown: Callable[[str], str] = str,
    ) -> None:
        """Opens the file.

        Args:
            module: Glob on module paths, as in ``encoder.*``; ops elsewhere are left out.
            fetch: Sequence number of an op, and where to store its outputs with `torch.save`.
            thorough: Read all memory at every use, instead of trusting what is known of it.
            shown: Gives the path under which to show a source file.
        """
        self._writer = TraceWriter(path)
        self._fetch = fetch
        self._thorough = thorough
        self._count = 0
        self._ops: dict[Any, Op] = {}
        self._storages: dict[int, _Storage] = {}
        self._purge_at = PURGE_AT
        self._layouts: dict[tuple[Any, Any], tuple[int, bool]] = {}
        self._shown = shown
        self._ranks: dict[CodeType, int] = {}
        self._lines: dict[tuple[CodeType, int], int] = {}
        self._kinds: dict[tuple[Any, ...], int] = {}
        self._arguments: dict[Any, int] = {}
        self._forward: dict[int, tuple[int, int]] = {}
        self._modules = ModulePaths(module)
        self._mode: _Mode | None = None
        self._save = torch.save
        self._closed = False
        self._owner = os.getpid()

    def start(self) -> None:
        """Begins to record."""
        if self._mode is None:
            self._storages.clear()
            self._modules.follow()
            self._mode = _Mode(self)
            self._mode.__enter__()  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        """Ends recording; where a mode of the script lies above, the tracer's own stays and does nothing."""
        if self._mode is None:
            return
        mode, self._mode = self._mode, None
        self._modules.leave()
        stack = torch._C._len_torch_dispatch_stack()
        if stack and torch._C._get_dispatch_stack_at(stack - 1) is mode:
            mode.__exit__(None, None, None)
        else:
            mode.tracer = None
        self._storages.clear()

    def mark(self, text: str) -> None:
        """Notes a place in the run; memory from outside is read anew from here on."""
        self._writer.add([MARK, self._writer.names.number(text)])
        self._count += 1
        for storage in self._storages.values():
            if storage.external:
                storage.digests.clear()

    def close(self) -> None:
        """Ends the file."""
        self.stop()
        if not self._closed:
            self._closed = True
            self._writer.close()

    # ------------------------------------------------------------------ one op

    def execute(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Executes an op and records it."""
        if os.getpid() != self._owner:
            return func(*args, **kwargs)
        op = self._ops.get(func)
        if op is None:
            op = self._ops[func] = describe(func)
        module, line = self._place(sys._getframe(2))
        if not self._modules.wanted(self._writer.names.text(module)):
            return func(*args, **kwargs)
        inputs: list[Any] = []
        written: list[torch.Tensor] = []
        rest: list[Any] = []
        skipped = 0 if op.is_scaled and kwargs.get("beta", 1) == 0 else -1
        unsaid = op.unsaid if op.unsaid and is_training(args) else ()
        for position, value in enumerate(args):
            is_written = position in op.written or position in unsaid
            self._take(
                op, value, inputs, written, rest, is_written, said=position not in unsaid, skip=position == skipped
            )
        for key, value in kwargs.items():
            rest.append(key)
            self._take(op, value, inputs, written, rest, key in op.written, said=True, skip=False)
        generator = generator_digest((*args, *kwargs.values())) if op.draws else b""
        given: list[Any] = []
        record: list[Any] = [
            self._writer.names.number(op.name),
            module,
            line,
            self._argument_number(rest),
            generator,
            inputs,
            given,
        ]
        result = func(*args, **kwargs)
        self._give(op, result, written, given)
        if self._fetch is not None and self._fetch[0] == self._count:
            store_outputs(self._save, result, written, self._fetch[1])
        self._writer.add(record)
        self._count += 1
        if len(self._storages) > self._purge_at:
            self._purge()
        return result

    def _place(self, frame: FrameType | None) -> tuple[int, int]:
        """Numbers of the module and of the line that an op belongs to."""
        names = self._writer.names
        node: Any = torch._C._current_autograd_node()  # None outside backward, whatever its stub says
        made = torch._C._autograd._get_sequence_nr() - 1
        if node is None:
            place = names.number(self._modules.path), self._line(frame)
        elif (again := recomputed_line(frame)) is not None:
            place = names.number(self._modules.path), names.number(f"{self._shown(again.path)}:{again.line}")
        else:
            place = self._forward.get(node._sequence_nr()) or (names.number(""), self._line(frame))
        if made not in self._forward:
            if len(self._forward) > FORWARD_LIMIT:
                for key in list(self._forward)[: FORWARD_LIMIT // 2]:
                    del self._forward[key]
            self._forward[made] = place
        return place

    def _line(self, frame: FrameType | None) -> int:
        """Number of the innermost line of the user, or of an installed library where there is none."""
        library: tuple[CodeType, int] | None = None
        found: tuple[CodeType, int] | None = None
        while frame is not None:
            code = frame.f_code
            rank = self._ranks.get(code)
            if rank is None:
                rank = self._ranks[code] = rank_of(code.co_filename)
            if rank == 0:
                found = code, frame.f_lineno
                break
            if rank == 1 and library is None:
                library = code, frame.f_lineno
            frame = frame.f_back
        found = found or library
        if found is None:
            return self._writer.names.number("")
        number = self._lines.get(found)
        if number is None:
            text = f"{self._shown(found[0].co_filename)}:{found[1]}"
            number = self._lines[found] = self._writer.names.number(text)
        return number

    def _take(
        self,
        op: Op,
        value: Any,
        inputs: list[Any],
        written: list[torch.Tensor],
        rest: list[Any],
        is_written: bool,
        *,
        said: bool,
        skip: bool,
    ) -> None:
        if isinstance(value, torch.Tensor):
            if is_written:
                written.append(value)
            if not (skip or op.is_view or (is_written and said and op.overwrites)):
                inputs += self._seen(value, reads=not is_written or op.reads_all, written=is_written)
            elif op.is_view or is_written:
                inputs += (self._kind(value), b"", self._overlap(value) if is_written else 0)
        elif isinstance(value, list | tuple) and value and isinstance(value[0], torch.Tensor | None):
            for one in value:
                self._take(op, one, inputs, written, rest, is_written, said=said, skip=skip)
        elif not isinstance(value, torch.Generator):
            rest.append(value)

    def _give(self, op: Op, result: Any, written: list[torch.Tensor], outputs: list[Any]) -> None:
        """Notes what an op has written and made."""
        for tensor in written:
            storage = self._storage(tensor)
            if storage is not None:
                storage.digests.clear()
                storage.external = False
                storage.initialised = True
            outputs += (self._kind(tensor), b"", UNDIGESTED) if op.in_flight else self._seen(tensor, reads=False)
        if op.written and not op.unsaid:
            return
        values = result if isinstance(result, list | tuple) else (result,)
        for position, tensor in enumerate(values):
            if not isinstance(tensor, torch.Tensor):
                continue
            if op.is_view:
                outputs += (self._kind(tensor), b"", 0)
                continue
            storage = self._storage(tensor, external=False, initialised=not op.allocates)
            if op.allocates or op.in_flight or position in op.side_outputs or storage is None:
                outputs += (self._kind(tensor), b"", UNDIGESTED)
            else:
                if storage.external or not storage.initialised:
                    storage.external, storage.initialised = False, True
                outputs += self._seen(tensor, reads=False)

    # ------------------------------------------------------------------ tensors

    def _storage(self, tensor: torch.Tensor, *, external: bool = True, initialised: bool = True) -> _Storage | None:
        """What is known of a tensor's memory; None where it has none of its own."""
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            return None
        address = storage._cdata
        known = self._storages.get(address)
        if known is None:
            reference: Any = storage._weak_ref()
            known = _Storage(reference, external=external, initialised=initialised)
            self._storages[address] = known
        return known

    def _seen(self, tensor: torch.Tensor, *, reads: bool, written: bool = False) -> tuple[int, bytes, int]:
        """Kind, digest and flags of a tensor."""
        kind = self._kind(tensor)
        storage = self._storage(tensor) if tensor.layout is torch.strided else None
        if storage is None or tensor.is_quantized or tensor.is_nested or not _is_plain(type(tensor)):
            digest = composite_digest(tensor)
            return kind, digest, 0 if digest else UNDIGESTED
        flags = 0
        if storage.external:
            flags |= EXTERNAL
        if not storage.initialised and reads:
            flags |= UNINITIALISED
        if written:
            flags |= self._overlap(tensor)
        try:
            return kind, self._digest(tensor, storage), flags
        except Exception:  # noqa: BLE001 - observing must never break what is observed
            return kind, b"", flags | UNDIGESTED

    def _digest(self, tensor: torch.Tensor, storage: _Storage) -> bytes:
        elements, _ = self._layout(tensor)
        offset, itemsize = tensor.storage_offset(), tensor.itemsize
        size = elements * itemsize
        if elements < 0 or tensor.device.type != "cpu" or tensor.is_conj() or tensor.is_neg():
            size = -1
        version = -1 if tensor.is_inference() else tensor._version
        key: Any = (offset * itemsize, size) if size >= 0 else (offset, tensor.shape, tensor.stride(), tensor.dtype)
        known = storage.digests.get(key)
        trusted = version >= 0 and not (self._thorough or (storage.external and size <= SMALL_BYTES))
        if known is not None and trusted and known[0] == version:
            return known[1]
        if size < 0:
            digest = logical_digest(tensor)
        elif offset * itemsize + size > tensor.untyped_storage().nbytes():
            raise ValueError("freed")
        else:
            digest = xxh3_128_digest(memory_of(tensor.data_ptr(), size)) if size else b"\0" * 16
        storage.digests[key] = version, digest
        return digest

    def _layout(self, tensor: torch.Tensor) -> tuple[int, bool]:
        """How many elements a tensor covers without gaps, -1 where it has some, and whether some share memory."""
        key = tensor.shape, tensor.stride()
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._layouts[key] = dense_elements(*key), overlaps(*key)
        return layout

    def _kind(self, tensor: torch.Tensor) -> int:
        """Number of a tensor's dtype, shape and strides."""
        try:
            key: tuple[Any, ...] = tensor.dtype, tensor.shape, tensor.stride(), tensor.device.type
        except RuntimeError:
            key = tensor.dtype, tuple(tensor.shape), None, tensor.device.type
        number = self._kinds.get(key)
        if number is None:
            number = self._kinds[key] = self._writer.names.number(kind_text(*key))
        return number

    def _overlap(self, tensor: torch.Tensor) -> int:
        return OVERLAPPING if tensor.layout is torch.strided and self._layout(tensor)[1] else 0

    def _argument_number(self, rest: list[Any]) -> int:
        """Number of the text of an op's arguments that are no tensors."""
        try:
            # 1, 1.0 and True are equal, and 0.0 and -0.0, and yet other arguments.
            key = tuple((type(value), str(value) if isinstance(value, float) else value) for value in rest)
            number = self._arguments.get(key)
        except TypeError:
            return self._writer.names.number(_argument_text(rest))
        if number is None:
            if len(self._arguments) > FORWARD_LIMIT:
                self._arguments.clear()
            number = self._arguments[key] = self._writer.names.number(_argument_text(rest))
        return number

    def _purge(self) -> None:
        """Forgets storages that are gone."""
        self._storages = {key: one for key, one in self._storages.items() if not _expired(one.reference)}
        self._purge_at = max(PURGE_AT, 2 * len(self._storages))


@lru_cache
def _is_plain(kind: type[torch.Tensor]) -> bool:
    """Whether tensors of a class are memory and nothing else; wrappers are not."""
    return kind.__torch_dispatch__ is torch.Tensor.__torch_dispatch__


def _argument_text(rest: list[Any]) -> str:
    return ", ".join(str(value) for value in rest)


class _Mode(TorchDispatchMode):
    """Hands every op to the tracer."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tracer: Tracer | None = tracer

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Lets compiled functions stay compiled: in eager mode they give other bits."""
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        tracer = self.tracer
        if tracer is None:
            return func(*args, **(kwargs or {}))
        return tracer.execute(func, args, kwargs or {})
