"""Records every op that reaches the dispatcher: what it was, whose, and digests of what it took and gave.

Digests are taken of a tensor's memory once, and again when it was written: what a traced op writes is known from its
schema, what others write from the version counter. Memory from outside is not trusted for longer than from one mark to
the next. Nothing keeps a tensor alive: storages are held by weak references.
"""

import os
import sys
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from repro_audit.script_records import OWN_GENERATOR
from repro_audit.trace_file import MARK, TraceWriter
from repro_audit.worker.source_lines import ENGINE, rank_of, recomputed_line
from repro_audit.worker.trace_memory import Memory, Seen
from repro_audit.worker.trace_modules import ModulePaths
from repro_audit.worker.trace_ops import Op, describe, is_training
from repro_audit.worker.trace_tensors import generator_digest, store_outputs

FORWARD_LIMIT = 200_000
"""Forward ops whose lines are remembered for their backward ops."""


_UNTOLD = (torch.UntypedStorage, torch.storage.TypedStorage)
"""Arguments whose text says nothing: their content does, where it is used."""

_SCALARS = frozenset({int, float, bool, type(None)})


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
        self._memory = Memory(self._writer.names, thorough=thorough)
        self._count = 0
        self._ops: dict[Any, tuple[Op, int]] = {}
        self._shown = shown
        self._ranks: dict[str, int] = {}
        self._lines: dict[tuple[str, int], int] = {}
        self._arguments: dict[Any, int] = {}
        self._forward: dict[int, tuple[int, int]] = {}
        self._modules = ModulePaths(module)
        self._mode: _Mode | None = None
        self._save = torch.save
        self._none = self._writer.names.number("")
        self._closed = False
        _close_in_children(self)

    def start(self) -> None:
        """Begins to record."""
        if self._mode is None:
            self._memory.forget()
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
        self._memory.forget()

    def mark(self, text: str) -> None:
        """Notes a place in the run; memory from outside is read anew from here on."""
        self._writer.add([MARK, self._writer.names.number(text)])
        self._count += 1
        self._memory.distrust()

    def close(self) -> None:
        """Ends the file."""
        self.stop()
        if not self._closed:
            self._closed = True
            self._writer.close()

    def abandon(self) -> None:
        """Records nothing more, and leaves the file as it is."""
        if self._mode is not None:
            self._mode.tracer = None
        self._mode = None
        self._closed = True

    # ------------------------------------------------------------------ one op

    def execute(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Executes an op and records it."""
        known = self._ops.get(func)
        if known is None:
            op = describe(func)
            known = self._ops[func] = op, self._writer.names.number(op.name)
        op, number = known
        if op.is_bookkeeping:
            return op.call(*args, **kwargs)
        module, line = self._place(sys._getframe(2))
        if not self._modules.wanted(module, self._writer.names):
            return func(*args, **kwargs)
        inputs: list[Any] = []
        written: list[torch.Tensor] = []
        rest: list[Any] = []
        if op.reads_only:
            took = self._memory.took
            for value in args:
                if isinstance(value, torch.Tensor):
                    inputs += took(value)
                elif type(value) in _SCALARS:
                    rest.append(value)
                else:
                    self._others(value, inputs, rest)
        else:
            self._take(op, args, kwargs, inputs, written, rest)
        if kwargs:
            self._keywords(op, kwargs, inputs, written, rest)
        generator = generator_digest((*args, *kwargs.values())) if op.draws else b""
        arguments = self._argument_number(rest) if rest else self._none
        outputs: list[Any] = []
        result = op.call(*args, **kwargs)
        if written:
            wrote = self._memory.wrote
            for tensor in written:
                outputs += wrote(tensor, in_flight=op.in_flight)
        if op.gives:
            self._give(op, result, outputs)
        if self._fetch is not None and self._fetch[0] == self._count:
            store_outputs(self._save, result, written, self._fetch[1])
        self._writer.add([number, module, line, arguments, generator, inputs, outputs])
        self._count += 1
        return result

    def _place(self, frame: FrameType | None) -> tuple[int, int]:
        """Numbers of the module and of the line that an op belongs to."""
        names = self._writer.names
        node: Any = torch._C._current_autograd_node()  # None outside backward, whatever its stub says
        made = torch._C._autograd._get_sequence_nr() - 1
        if node is None:
            place = names.number(self._modules.path), self._line(frame)
        elif (frame is None or frame.f_code.co_name != ENGINE) and (again := recomputed_line(frame)) is not None:
            place = names.number(self._modules.path), names.number(f"{self._shown(again.path)}:{again.line}")
        else:
            place = self._forward.get(node._sequence_nr()) or (self._none, self._line(frame))
        if made not in self._forward:
            if len(self._forward) > FORWARD_LIMIT:
                for key in list(self._forward)[: FORWARD_LIMIT // 2]:
                    del self._forward[key]
            self._forward[made] = place
        return place

    def _line(self, frame: FrameType | None) -> int:
        """Number of the innermost line of the user, or of an installed library where there is none."""
        ranks = self._ranks
        library: tuple[str, int] | None = None
        found: tuple[str, int] | None = None
        while frame is not None:
            path = frame.f_code.co_filename  # and not the code, which takes long to hash
            rank = ranks.get(path)
            if rank is None:
                rank = ranks[path] = rank_of(path)
            if rank == 0:
                found = path, frame.f_lineno
                break
            if rank == 1 and library is None:
                library = path, frame.f_lineno
            frame = frame.f_back
        found = found or library
        if found is None:
            return self._none
        number = self._lines.get(found)
        if number is None:
            text = f"{self._shown(found[0])}:{found[1]}"
            number = self._lines[found] = self._writer.names.number(text)
        return number

    def _take(
        self,
        op: Op,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        inputs: list[Any],
        written: list[torch.Tensor],
        rest: list[Any],
    ) -> None:
        """Notes the positional arguments of an op that does more with them than to read them."""
        ignored = 0 if op.is_scaled and kwargs.get("beta", 1) == 0 else -1
        unsaid = op.unsaid if op.unsaid and is_training(args) else ()
        for position, value in enumerate(args):
            if not isinstance(value, torch.Tensor):
                if type(value) in _SCALARS:
                    rest.append(value)
                    continue
                tensors = self._others(value, None, rest)
            else:
                tensors = (value,)
            is_written = position in op.written
            for tensor in tensors:
                if is_written:
                    written.append(tensor)
                    inputs += self._written(op, tensor)
                elif op.is_view or position == ignored:
                    inputs += self._memory.passed(tensor)
                else:
                    inputs += self._memory.took(tensor)
                    if position in unsaid:
                        written.append(tensor)

    def _written(self, op: Op, tensor: torch.Tensor) -> Seen:
        """A tensor that an op is about to write to."""
        if op.overwrites:
            return self._memory.passed(tensor, written=True)
        return self._memory.took(tensor, reads=op.reads_all, written=True)

    def _others(self, value: Any, inputs: list[Any] | None, rest: list[Any]) -> Sequence[torch.Tensor]:
        """Notes an argument that is no tensor; a list of tensors is noted in `inputs`, or returned."""
        if isinstance(value, (list, tuple)):
            tensors = [one for one in value if isinstance(one, torch.Tensor)]
            if not tensors:
                rest.append(tuple(value))
                return ()
            if inputs is None:
                return tensors
            for one in tensors:
                inputs += self._memory.took(one)
        elif isinstance(value, torch.Generator):
            rest.append(OWN_GENERATOR)
        elif not isinstance(value, _UNTOLD):
            rest.append(value)
        return ()

    def _keywords(
        self, op: Op, kwargs: dict[str, Any], inputs: list[Any], written: list[torch.Tensor], rest: list[Any]
    ) -> None:
        for key, value in kwargs.items():
            rest.append(f"{key}=")
            if type(value) in _SCALARS:
                rest.append(value)
                continue
            for tensor in (value,) if isinstance(value, torch.Tensor) else self._others(value, None, rest):
                if key in op.written:
                    written.append(tensor)
                    inputs += self._written(op, tensor)
                else:
                    inputs += self._memory.passed(tensor) if op.is_view else self._memory.took(tensor)

    def _give(self, op: Op, result: Any, outputs: list[Any]) -> None:
        """Notes what an op has made."""
        if isinstance(result, torch.Tensor):
            if op.is_view:
                outputs += self._memory.passed(result)
            else:
                outputs += self._memory.made(
                    result, written=not op.allocates, digested=not (op.allocates or op.in_flight)
                )
        elif isinstance(result, list | tuple):
            for position, tensor in enumerate(result):
                if isinstance(tensor, torch.Tensor):
                    if op.is_view:
                        outputs += self._memory.passed(tensor)
                    else:
                        digested = not op.in_flight and position not in op.side_outputs
                        outputs += self._memory.made(tensor, written=True, digested=digested)

    def _argument_number(self, rest: list[Any]) -> int:
        """Number of the text of an op's arguments that are no tensors."""
        try:
            # 1, 1.0 and True are equal, and 0.0 and -0.0, and yet other arguments.
            key: Any = (*rest, *map(type, rest)) if 0 not in rest else str(rest)
            number = self._arguments.get(key)
        except (TypeError, RuntimeError):
            return self._writer.names.number(_argument_text(rest))
        if number is None:
            if len(self._arguments) > FORWARD_LIMIT:
                self._arguments.clear()
            number = self._arguments[key] = self._writer.names.number(_argument_text(rest))
        return number


def _close_in_children(tracer: Tracer) -> None:
    """Has a forked child trace nothing: the file is its parent's."""
    reference = weakref.ref(tracer)

    def forked() -> None:
        tracer = reference()
        if tracer is not None:
            tracer.abandon()

    os.register_at_fork(after_in_child=forked)


_dynamo: Any = torch._C._dynamo.eval_frame


def _keeps_off_dynamo() -> bool:
    """Whether this release of PyTorch can be told to compile neither a function nor what it calls."""
    return all(hasattr(_dynamo, name) for name in ("set_code_exec_strategy", "_FrameExecStrategy", "_FrameAction"))


def _argument_text(rest: list[Any]) -> str:
    return ", ".join(str(value) for value in rest).replace("=, ", "=")


class _Mode(TorchDispatchMode):
    """Hands every op to the tracer."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tracer: Tracer | None = tracer

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Lets compiled functions stay compiled: in eager mode they give other bits."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Spares each op a detour that keeps Dynamo from this class; below it is told once and for all."""
        return not _keeps_off_dynamo()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        tracer = self.tracer
        if tracer is None:
            return func(*args, **(kwargs or {}))
        return tracer.execute(func, args, kwargs or {})


if _keeps_off_dynamo():
    _dynamo.set_code_exec_strategy(
        _Mode.__torch_dispatch__.__code__,
        _dynamo._FrameExecStrategy(_dynamo._FrameAction.SKIP, _dynamo._FrameAction.SKIP),
    )
