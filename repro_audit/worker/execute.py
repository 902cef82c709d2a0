"""Makes a run in this process: arms the mode, seeds, executes the workload, and records what was there."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from repro_audit.compare import LOSS_LEAF
from repro_audit.digests import state_digest
from repro_audit.records import (
    Completed,
    Cost,
    FailureKind,
    Mode,
    Outcome,
    Phase,
    Repeat,
    Role,
    RunTask,
    State,
    States,
    WorkerRecord,
)
from repro_audit.worker.alerts import AlertLog, message_of
from repro_audit.worker.attribution import Attributed, attribute, with_forward_locations
from repro_audit.worker.conditions import Place, apply_conditions, read_conditions, vary_class
from repro_audit.worker.cost import PATIENCE_SECONDS, measure_cost
from repro_audit.worker.determinism import Watch, arm, read_flags
from repro_audit.worker.digest import digest_leaves
from repro_audit.worker.failures import EmptyError, classified, failed
from repro_audit.worker.generators import generator_states, seed_generators
from repro_audit.worker.leaves import Leaf, LeafError, named_leaves
from repro_audit.worker.load import load_class
from repro_audit.worker.losses import read_loss
from repro_audit.worker.memory import FILLS, fill_new_memory
from repro_audit.worker.modes import undisturbed
from repro_audit.worker.peak_memory import PeakMemory, available_bytes


@dataclass
class _Seen:
    """What a run has seen so far; kept also when it fails midway."""

    states: States = field(default_factory=dict)
    roles: dict[str, Role] = field(default_factory=dict)
    repeats: list[Repeat] = field(default_factory=list)
    seeded: tuple[str, ...] = ()
    repeat: int = 0
    step: int = 0
    peak_bytes: int = 0


def execute(task: RunTask) -> WorkerRecord:
    """Makes the run; whatever the workload does short of ending the process is in the record."""
    device = torch.device(task.device)
    began = time.monotonic()
    conditions = task.conditions or {}
    import_folder = os.getcwd()
    arm(task.mode)
    apply_conditions(conditions, Place(device=device, scratch=Path(f"{task.record_path}.place")))
    if device.type == "cuda":
        torch.cuda.init()  # now, so that the states of its generators are there from setup on
        torch.cuda.set_device(device)  # a bare "cuda" in the workload means the audited device
    flags_start = read_flags()
    seen = _Seen()
    log = AlertLog()
    watching = Watch(task.mode, varied=conditions)
    with watching as watch, log if task.mode is Mode.WARN_ONLY else contextlib.nullcontext():
        outcome = _outcome(task, device, import_folder, watch, log, seen)
    flags_end = read_flags()
    alerts = log.alerts
    notes: tuple[str, ...] = ()
    if isinstance(outcome, Completed) and any(alert.phase is Phase.BACKWARD for alert in alerts):
        attributed, notes = _attributed(task, device)
        alerts = with_forward_locations(alerts, attributed)
    cost: Cost | None = None
    if task.measures_cost and isinstance(outcome, Completed):
        cost, note = _measured_cost(task, device, time.monotonic() - began, seen.peak_bytes)
        notes += (note,) if note else ()
    return WorkerRecord(
        outcome=outcome,
        states=seen.states,
        roles=seen.roles,
        alerts=alerts,
        breaches=watch.breaches,
        flags_start=flags_start,
        flags_end=flags_end,
        seeded=seen.seeded,
        notes=notes,
        conditions=read_conditions(conditions) if task.conditions is not None else {},
        cost=cost,
        peak_bytes=seen.peak_bytes,
    )


def _outcome(
    task: RunTask, device: torch.device, import_folder: str, watch: Watch, log: AlertLog, seen: _Seen
) -> Outcome:
    try:
        workload_class = load_class(task.source, import_folder)
        vary_class(workload_class, task.conditions or {})
    except BaseException as error:  # noqa: BLE001 - the worker's outer shell: what importing does is a result
        return failed(FailureKind.IMPORT, error)
    memory = PeakMemory(device)
    try:
        for seen.repeat in range(task.repeats):
            seen.seeded = seed_generators(task.seed)
            if task.fills_memory:
                fill_new_memory(FILLS[min(seen.repeat, 1)])  # all the others are compared with the first
            with _traced(task, seen.repeat) as mark:
                workload = _construct(workload_class, task.source.variant)
                seen.repeats.append(Repeat(states=tuple(_steps(workload, task, device, watch, log, seen, mark))))
            if seen.repeat < 2:  # as many as the strict run makes that this is compared with
                seen.peak_bytes = memory.read()
    except BaseException as error:  # noqa: BLE001 - the worker's outer shell: what a workload does is a result
        return classified(error, task.mode, repeat=seen.repeat, step=seen.step)
    return Completed(repeats=tuple(seen.repeats))


@contextlib.contextmanager
def _traced(task: RunTask, repeat: int) -> Iterator[Callable[[str], None]]:
    """Traces a repeat where the task asks for it; yields what marks a step."""
    if task.trace_path is None:
        yield lambda _: None
        return
    from repro_audit.worker.trace import Tracer  # no other run needs it

    tracer = Tracer(Path(f"{task.trace_path}.{repeat}"))
    tracer.start()
    try:
        yield tracer.mark
    finally:
        tracer.close()


def _construct(workload_class: type[Any], variant: str | None) -> Any:
    return workload_class() if variant is None else workload_class(variant)


def _steps(
    workload: Any,
    task: RunTask,
    device: torch.device,
    watch: Watch,
    log: AlertLog,
    seen: _Seen,
    mark: Callable[[str], None],
) -> Iterator[str]:
    """Executes a repeat, yielding the digest of what was there after setup, which is step 0, and after each step."""
    for seen.step in range(task.steps + 1):
        log.step = seen.step
        watch.check(seen.repeat, seen.step)
        mark(f"step {seen.step}")
        returned = workload.setup(device) if seen.step == 0 else workload.step()
        watch.check(seen.repeat, seen.step)
        with undisturbed():
            state = _observed(workload, returned, task, device, seen)
        yield state


def _observed(workload: Any, returned: object, task: RunTask, device: torch.device, seen: _Seen) -> str:
    """Digests what is there after a step, and remembers it."""
    leaves = _beside_our_own(named_leaves(workload.state()))
    if device.type == "cuda":
        torch.cuda.synchronize(device)  # a state may hold CPU tensors whose copies are still under way
    if seen.step == task.steps and not leaves:
        raise EmptyError("state() held nothing after the last step; return what must be equal bit for bit")
    loss = None
    if seen.step:
        loss, value = read_loss(returned)
        leaves[LOSS_LEAF] = Leaf(Role.LOSS, value)
    leaves.update(generator_states(with_cuda=device.type == "cuda"))
    digests = digest_leaves(leaves)
    state = state_digest(digests)
    seen.states[state] = State(loss=loss, leaves=digests)
    seen.roles.update({path: leaf.role for path, leaf in leaves.items()})
    for fetch in task.fetches:
        if (fetch.repeat, fetch.step) == (seen.repeat, seen.step) and fetch.leaf in leaves:
            torch.save(leaves[fetch.leaf].value, fetch.path)
    return state


def _beside_our_own(leaves: dict[str, Leaf]) -> dict[str, Leaf]:
    """The workload's leaves; those whose path the auditor gives to the loss or a generator move below ``state/``."""
    moved: dict[str, Leaf] = {}
    for path, leaf in leaves.items():
        free = f"state/{path}" if path == LOSS_LEAF or path.startswith("rng/") else path
        if free in moved or (free != path and free in leaves):
            raise LeafError(path, leaf.value, f"cannot be moved to {free}, which is taken; rename its key")
        moved[free] = leaf
    return moved


def _measured_cost(task: RunTask, device: torch.device, seconds: float, peak_bytes: int) -> tuple[Cost | None, str]:
    """What strict mode costs, or why that is not known: the run itself must not be lost over it.

    Args:
        seconds: What the run has taken so far.
        peak_bytes: What it needed of memory.
    """
    if seconds > PATIENCE_SECONDS:
        return None, "what strict mode costs in time was not measured: the steps take too long"
    if 4 * peak_bytes > available_bytes(device):  # two more of them, and as much to spare
        return None, "what strict mode costs in time was not measured: two such workloads may not fit into memory"

    def construct() -> Any:
        return _construct(load_class(task.source), task.source.variant)

    try:
        return measure_cost(construct, device, task.seed), ""
    except BaseException as error:  # noqa: BLE001 - the workload's again, this time as it was not asked to run before
        return None, f"what strict mode costs in time is unknown: {type(error).__name__}: {message_of(error)}"


def _attributed(task: RunTask, device: torch.device) -> tuple[Attributed, tuple[str, ...]]:
    """Executes the workload once more, op by op, to learn which forward lines made the backward alerts."""

    def again() -> None:
        seed_generators(task.seed)
        workload = _construct(load_class(task.source), task.source.variant)
        workload.setup(device)
        for _ in range(task.steps):
            workload.step()

    try:
        return attribute(again), ()
    except BaseException as error:  # noqa: BLE001 - the workload's again; the alerts themselves were seen without it
        return Attributed(), (
            f"the forward lines of backward alerts are unknown: {type(error).__name__}: {message_of(error)}",
        )
