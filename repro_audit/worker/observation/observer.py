"""The observer of one process: what to write at each point, in which stream, and never at the script's expense."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import torch

from repro_audit.records import Breach, Loss, Mode, Role, SourceLine
from repro_audit.script_records import MAIN_STREAM, THREADS_SUFFIX, Observation, Point, StreamEnd
from repro_audit.worker.determinism import Watch
from repro_audit.worker.digest import digest_leaves
from repro_audit.worker.leaves import Leaf, LeafError
from repro_audit.worker.losses import LossError, read_loss
from repro_audit.worker.modes import undisturbed
from repro_audit.worker.observation.quick_digest import generator_digests, quick_digests, roles_of, row_sum
from repro_audit.worker.observation.schedule import Schedule
from repro_audit.worker.observation.stream import StreamWriter
from repro_audit.worker.observation.subjects import Subjects
from repro_audit.worker.observation.tensors import saved_tensors, tensors_in
from repro_audit.worker.source_lines import line_of_stack

SMALL_BYTES = 2**20
"""In processes that a script starts, up to this size everything is looked at every time."""

CHILD_INTERVAL = 16
"""Beyond it, at one loss in so many: at which of them depends on their bits."""

LARGE_BYTES = 64 * 2**20
"""Larger inputs and outputs are digested only when everything is."""


class Paths:
    """Shows places in the copy of the working directory as places in the user's own."""

    def __init__(self, copy: str, original: str) -> None:
        self._copy, self._original = copy, original

    def shown(self, path: str) -> str:
        """The user's own path."""
        if path == self._copy or path.startswith(self._copy + os.sep):
            return self._original + path[len(self._copy) :]
        return path

    def line(self, line: SourceLine | None) -> str:
        """A line as a stream names it."""
        return f"{self.shown(line.path)}:{line.line}" if line is not None else ""


class Observer:
    """Observes the process it lives in, and every child that is forked from it."""

    def __init__(
        self,
        folder: Path,
        paths: Paths,
        schedule: dict[str, tuple[int, ...]] | None,
        *,
        name: str = MAIN_STREAM,
        mode: Mode | None,
    ) -> None:
        self.paths = paths
        self.mode = mode
        self._folder = folder
        self._prescribed = schedule
        self._watch: Watch | None = None
        self._local = threading.local()
        self.on_observation: Callable[[Observation, int], None] | None = None
        self._begin(name)

    def _begin(self, name: str) -> None:
        self.name = name
        self._subjects = Subjects()
        self.notes: dict[str, None] = {}
        self.steps = 0
        self.children = {"": 0, "s": 0}
        self._main_thread = threading.get_ident()
        self._main_module: Any = None
        self._writer = StreamWriter(self._folder, name)
        self._threads_writer = StreamWriter(self._folder, name + THREADS_SUFFIX)
        self._schedules: dict[str, Schedule] = {}
        self._generators: dict[str, str] = {}
        self._compared = 0
        self._last_loss = ""
        self._ended = False
        self._untold: list[tuple[Observation, int]] = []

    def forked(self, name: str) -> None:
        """Begins anew in a forked child."""
        self._local = threading.local()
        self.on_observation = None
        if self._watch is not None:
            self._watch.forget()
        self._begin(name)

    def watch(self, watch: Watch) -> None:
        """Has determinism settings read back at every observation."""
        self._watch = watch

    @property
    def subjects(self) -> Subjects:
        """Those of this thread: threads meet what they train in an order that no other run has to repeat."""
        if self._in_main_thread():
            return self._subjects
        if not hasattr(self._local, "subjects"):
            self._local.subjects = Subjects(ordered=False)
            self.note("threads were observed at their own losses and steps, and not a last time at the end")
        subjects: Subjects = self._local.subjects
        return subjects

    @property
    def schedule(self) -> dict[str, tuple[int, ...]]:
        """At which occasions everything was looked at."""
        return {kind: tuple(schedule.taken) for kind, schedule in self._schedules.items()}

    # ------------------------------------------------------------------ guarding

    @contextmanager
    def guarded(self) -> Iterator[bool]:
        """Whether to observe now; what goes wrong inside is noted and not raised, and is not observed itself."""
        if self._ended or getattr(self._local, "busy", False) or not _observable():
            yield False
            return
        self._local.busy = True
        try:
            with undisturbed():
                yield True
        except Exception as error:  # noqa: BLE001 - observing must never break what is observed
            self.notes[f"not observed at one point: {type(error).__name__}: {error}"] = None
        finally:
            self._local.busy = False
            # Told now, and not inside, where the modes of the user and of a tracer are out of force.
            while self._untold and self.on_observation is not None:
                self.on_observation(*self._untold.pop(0))

    def note(self, text: str) -> None:
        """Says something about this process, once."""
        self.notes[text] = None

    # ------------------------------------------------------------------ points

    def loss(self, tensors: Any, frame: FrameType) -> None:
        """``backward`` begins from one or several tensors."""
        roots = [tensor for _, tensor in tensors_in(tensors) if isinstance(tensor, torch.Tensor)]
        self._leave_modules()
        wanted, began = self._wants(Point.LOSS, 0)
        leaves = {
            ("loss" if len(roots) == 1 else f"loss/{n}"): Leaf(Role.LOSS, root.detach()) for n, root in enumerate(roots)
        }
        digests = digest_leaves(leaves)
        roles = roles_of(leaves)
        context: dict[str, str] = {}
        if wanted:
            lone = self.subjects.graph_leaves(roots)
            more, context = quick_digests(lone)
            digests |= more
            roles |= roles_of(lone)
        self._cost(Point.LOSS, wanted, began)
        self._write(
            Point.LOSS,
            "backward",
            frame,
            leaves=digests,
            roles=roles,
            context=context,
            complete=wanted,
            loss=_loss(roots),
        )

    def step(self, optimizer: torch.optim.Optimizer, frame: FrameType) -> None:
        """``Optimizer.step`` ended."""
        self._leave_modules()
        if self._in_main_thread():
            self.steps += 1
        for forgotten in self.subjects.add_optimizer(optimizer):
            self._last_look(*self.subjects.optimizer_leaves(forgotten), self.subjects.names.of(forgotten))
        size = sum(parameter.nbytes for group in optimizer.param_groups for parameter in group["params"])
        wanted, began = self._wants(Point.STEP, size)
        digests: dict[str, str] = {}
        roles: dict[str, Role] = {}
        context: dict[str, str] = {}
        if wanted:
            self.subjects.rename()
            leaves, context = self.subjects.optimizer_leaves(optimizer)
            leaves |= self.subjects.buffers()
            digests, failures = quick_digests(leaves)
            context |= failures
            roles = roles_of(leaves)
        self._cost(Point.STEP, wanted, began)
        name = self.subjects.names.of(optimizer)
        self._write(Point.STEP, name, frame, leaves=digests, roles=roles, context=context, complete=wanted)

    def module_begins(self, module: torch.nn.Module, arguments: Any, frame: FrameType) -> None:
        """A module is called; seen only where no other module calls it."""
        if getattr(self._local, "module", None) is not None:
            if self._local.module is module:
                self._local.depth += 1
            return
        if not self._in_main_thread() and self._main_module is not None:
            return  # replicas, each in a thread of its own
        self._local.module, self._local.depth = module, 1
        if self._in_main_thread():
            self._main_module = module
        with self.guarded() as observing:
            if observing:
                for forgotten in self.subjects.add_module(module):
                    self._last_look(self.subjects.module_leaves(forgotten), {}, self.subjects.names.of(forgotten))
                self._values(Point.INPUT, self.subjects.names.of(module), arguments, frame)

    def module_ends(self, module: torch.nn.Module, output: Any, frame: FrameType) -> None:
        """Such a call returned, or raised: then there is no output."""
        if getattr(self._local, "module", None) is not module:
            return
        self._local.depth -= 1
        if self._local.depth:
            return
        self._leave_modules()
        if output is not None:
            with self.guarded() as observing:
                if observing:
                    self._values(Point.OUTPUT, self.subjects.names.of(module), output, frame)

    def _leave_modules(self) -> None:
        self._local.module = None
        if self._in_main_thread():
            self._main_module = None

    def batch(self, loader: Any, batch: Any, frame: FrameType) -> None:
        """A loader handed over a batch."""
        self._values(Point.BATCH, type(loader).__name__, batch, frame)

    def _values(self, point: Point, name: str, values: Any, frame: FrameType) -> None:
        """Tensors that go in or come out: data always, what is computed with gradients when everything is looked at."""
        found = list(tensors_in(values))
        sizes = [0 if _is_odd(tensor) else tensor.nbytes for _, tensor in found]
        wanted, began = self._wants(point, sum(sizes))
        taken: dict[str, Leaf] = {}
        complete = True
        for (path, tensor), size in zip(found, sizes, strict=True):
            large = size > LARGE_BYTES
            if wanted or not (large or getattr(tensor, "requires_grad", False)):
                taken[path] = Leaf(Role.VALUE, tensor.detach() if isinstance(tensor, torch.Tensor) else tensor)
            else:
                complete = False
        digests, failures = quick_digests(taken)
        rows: dict[str, str] = {}
        if point in (Point.INPUT, Point.BATCH):
            for path, leaf in taken.items():
                if isinstance(leaf.value, torch.Tensor) and (total := row_sum(leaf.value)) is not None:
                    rows[path] = total
        self._cost(point, wanted, began)
        self._write(point, name, frame, leaves=digests, rows=rows, context=failures, complete=complete)

    def scaler(self, scaler: Any, frame: FrameType) -> None:
        """``GradScaler.update`` ended."""
        leaves = {key: Leaf(Role.OPTIMIZER, value) for key, value in scaler.state_dict().items()}
        digests, failures = quick_digests(leaves)
        self._write(
            Point.SCALER, type(scaler).__name__, frame, leaves=digests, roles=roles_of(leaves), context=failures
        )

    def save(self, value: Any, frame: FrameType) -> None:
        """`torch.save` is called: tensors as tensors, since equal ones make unequal files."""
        leaves = {path: Leaf(Role.VALUE, tensor) for path, tensor in saved_tensors(value).items()}
        digests, failures = _exact_digests(leaves)
        self._write(Point.SAVE, "torch.save", frame, leaves=digests, context=failures)

    def remark(self, point: Point, name: str, frame: FrameType | None, context: dict[str, str]) -> None:
        """Something that explains, and is not compared."""
        self._write(point, name, frame, context=context, bare=True)

    def _last_look(self, leaves: dict[str, Leaf], failures: dict[str, str], name: str) -> None:
        if self._in_main_thread():  # when another thread lets go of something depends on what else it was given to do
            self._final(leaves, failures, name)

    def _final(self, leaves: dict[str, Leaf], failures: dict[str, str], name: str) -> None:
        digests, more = _exact_digests(leaves)
        self._write(Point.FINAL, name, None, leaves=digests, roles=roles_of(leaves), context=failures | more)

    # ------------------------------------------------------------------ the end

    def end(self) -> None:
        """Looks at what was trained a last time and ends the stream; the process shows nothing after that.

        Lets go of it all, as the script has: what is closed by being freed, as a process group is, closes.
        """
        if self._ended:
            return
        with self.guarded() as observing:
            if observing:
                leaves, failures = self._subjects.final_leaves()
                if leaves or self._compared:
                    self._final(leaves, failures, "script")
        self._ended = True
        self._subjects = Subjects()
        self._leave_modules()
        armed = self._watch is not None
        breaches = self._breaches()
        end = StreamEnd(
            strict=torch._C._get_deterministic_algorithms(),
            armed=armed,
            breaches=breaches,
            notes=tuple(self.notes),
        )
        if self._threads_writer.begun:
            self._threads_writer.write(end)
        if self._writer.begun or breaches or self.name == MAIN_STREAM:
            self._writer.write(end)

    def _breaches(self) -> tuple[Breach, ...]:
        if self._watch is None:
            return ()
        return tuple(
            msgspec.structs.replace(
                breach,
                location=None
                if breach.location is None
                else msgspec.structs.replace(breach.location, path=self.paths.shown(breach.location.path)),
            )
            for breach in self._watch.breaches
            # PyTorch has these settings without CUDA as well, where they decide nothing.
            if not breach.setting.startswith("cudnn.") or torch.cuda.is_initialized()
        )

    # ------------------------------------------------------------------ writing

    def _in_main_thread(self) -> bool:
        return threading.get_ident() == self._main_thread

    def _wants(self, point: Point, size: int) -> tuple[bool, float]:
        """Whether to look at everything, and since when.

        Args:
            size: Bytes of what there is to look at, about.
        """
        if not self._in_main_thread():
            return True, 0.0  # the order of threads is no order to count in
        if self.name != MAIN_STREAM:
            # Nor is that of processes which are given work by a pool: what is looked at depends on what it is.
            return size <= SMALL_BYTES or int(self._last_loss[-2:] or "0", 16) % CHILD_INTERVAL == 0, 0.0
        key = f"{self.name}:{point.value}"
        schedule = self._schedules.get(key)
        if schedule is None:
            prescribed = None if self._prescribed is None else self._prescribed.get(key, ())
            schedule = self._schedules[key] = Schedule(prescribed)
        return schedule.wants(), time.perf_counter()

    def _cost(self, point: Point, wanted: bool, began: float) -> None:
        if wanted and began:
            self._schedules[f"{self.name}:{point.value}"].cost(time.perf_counter() - began)

    def _write(
        self,
        point: Point,
        name: str,
        frame: FrameType | None,
        *,
        leaves: dict[str, str] | None = None,
        roles: dict[str, Role] | None = None,
        rows: dict[str, str] | None = None,
        context: dict[str, str] | None = None,
        loss: Loss | None = None,
        complete: bool = True,
        bare: bool = False,
    ) -> None:
        main = self._in_main_thread()
        moved: dict[str, str] = {}
        if main and not bare:
            states = generator_digests()
            moved = {key: state for key, state in states.items() if self._generators.get(key) != state}
            self._generators = states
        if self._watch is not None:
            self._watch.check(0, self.steps)
        if main and point is Point.LOSS:
            self._last_loss = next(iter((leaves or {}).values()), "")
        observation = Observation(
            point=point,
            name=name,
            line=self.paths.line(line_of_stack(frame)) if frame is not None else "",
            loss=loss,
            leaves=leaves or {},
            roles=roles or {},
            relaxed=self._watch is None and not torch._C._get_deterministic_algorithms(),
            complete=complete,
            rows=rows or {},
            generators=moved,
            context=context or {},
        )
        (self._writer if main else self._threads_writer).write(observation)
        if main and point.is_compared:
            self._compared += 1
            if self.on_observation is not None:
                self._untold.append((observation, self._compared))


def _exact_digests(leaves: dict[str, Leaf]) -> tuple[dict[str, str], dict[str, str]]:
    """SHA-256 of all leaves on all cores; one by one where one of them has no digest."""
    try:
        return digest_leaves(leaves), {}
    except LeafError:
        return quick_digests(leaves)


def _is_odd(tensor: Any) -> bool:
    """Whether it has no size in bytes: a nested or sparse tensor."""
    return isinstance(tensor, torch.Tensor) and (tensor.is_nested or tensor.layout is not torch.strided)


def _loss(roots: list[torch.Tensor]) -> Loss | None:
    if len(roots) != 1:
        return None
    try:
        return read_loss(roots[0])[0]
    except LossError:
        return None


def _observable() -> bool:
    """Whether tensors have bits to look at here: not while a graph is compiled, captured, or transformed."""
    if torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    return not (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())
