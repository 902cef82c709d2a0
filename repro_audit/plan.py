"""Decides which runs a case gets, and in which interpreter."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from repro_audit.compare import REFERENCE_RUN
from repro_audit.records import Case, Comparison, Fetch, Mode, Pairing, RunTask, Settings, WorkloadSource
from repro_audit.variations import Conditions, Start

TRACE_A = "trace-a"
TRACE_B = "trace-b"
"""The runs that follow a divergence to find the op where repeats part."""

CONFIRM_A = "confirm-a"
CONFIRM_B = "confirm-b"
"""The runs that follow a divergence, in an interpreter each."""


class Zygote(StrEnum):
    """The two independent interpreters; a run in A is compared with runs in B, never two of the same."""

    A = "a"
    B = "b"


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A run and the interpreter it is forked from."""

    zygote: Zygote
    task: RunTask
    start: Start | None = None
    """How the interpreter is to be started; None: as all of the audit's are."""


def devices_of(settings: Settings, present: Sequence[str]) -> tuple[str, ...]:
    """The devices to audit: those asked for, else the CPU and the first CUDA device where there is one.

    Args:
        present: Names of the devices that are there.
    """
    wanted = settings.devices or tuple(device for device in ("cpu", "cuda:0") if device in present)
    return tuple(dict.fromkeys((*wanted, *settings.required_devices)))


def plan_case(case: Case, source: WorkloadSource, settings: Settings, scratch: Path) -> tuple[PlannedRun, ...]:
    """The runs of a case: twice in one process of A, once in each of `settings.repeats` processes of B, and warn_only.

    Args:
        scratch: Folder for the records of the runs.
    """

    def planned(name: str, zygote: Zygote, mode: Mode, repeats: int) -> PlannedRun:
        return PlannedRun(zygote=zygote, task=_task(name, case, source, settings, scratch, mode, repeats))

    strict = (
        planned(REFERENCE_RUN, Zygote.A, Mode.STRICT, 2),
        *(planned(f"strict-b{n}", Zygote.B, Mode.STRICT, 1) for n in range(1, settings.repeats + 1)),
    )
    return tuple(
        run for run in (*strict, planned("warn_only", Zygote.A, Mode.WARN_ONLY, 1)) if run.task.mode in settings.modes
    )


ARM_MODES = (Mode.DEFAULT, Mode.NO_FILL)
"""Modes in which a workload is repeated beside the claim."""


def plan_arms(case: Case, source: WorkloadSource, settings: Settings, scratch: Path) -> tuple[PlannedRun, ...]:
    """The runs that show what a strict pair hides: in each other mode, all repeats in one process.

    Memory that was freed by one repeat is what the next one finds: in fresh processes it would be zero in both.
    """

    def planned(mode: Mode) -> PlannedRun:
        task = _task(mode.value, case, source, settings, scratch, mode, settings.repeats + 1)
        task = msgspec.structs.replace(task, fills_memory=mode is Mode.NO_FILL, measures_cost=mode is Mode.DEFAULT)
        return PlannedRun(zygote=Zygote.A, task=task)

    return tuple(planned(mode) for mode in ARM_MODES if mode in settings.modes)


def plan_confirmation(
    case: Case, source: WorkloadSource, settings: Settings, scratch: Path, diverged: Sequence[Comparison]
) -> tuple[PlannedRun, ...]:
    """The runs that measure how far a divergence goes, and tell state carried over from nondeterminism.

    One more process of A gives the reference values; one more of B repeats twice, as the first run of A did.

    Args:
        diverged: Comparisons that found a divergence, at most one per pairing.
    """
    fetches: dict[str, list[Fetch]] = {CONFIRM_A: [], CONFIRM_B: []}
    for comparison in diverged:
        divergence = comparison.divergence
        if divergence is None or divergence.first is None or divergence.second is None:
            continue  # a leaf that is absent on one side has no distance
        for run, repeat in ((CONFIRM_A, 0), (CONFIRM_B, comparison.second.repeat)):
            path = str(fetched_path(scratch, run, comparison.pairing))
            fetches[run].append(Fetch(repeat=repeat, step=divergence.step, leaf=divergence.leaf, path=path))

    def planned(name: str, zygote: Zygote, repeats: int) -> PlannedRun:
        task = _task(name, case, source, settings, scratch, Mode.STRICT, repeats)
        return PlannedRun(zygote=zygote, task=msgspec.structs.replace(task, fetches=tuple(fetches[name])))

    return planned(CONFIRM_A, Zygote.A, 1), planned(CONFIRM_B, Zygote.B, 2)


def plan_trace(
    case: Case, source: WorkloadSource, settings: Settings, scratch: Path, diverged: Comparison
) -> tuple[PlannedRun, ...]:
    """The runs that trace every op of the two repeats that parted, up to the step where that was seen.

    Two repeats of one process are traced in one process again.
    """
    if diverged.divergence is None:
        return ()
    steps = min(max(diverged.divergence.step, 1), settings.steps)
    same = diverged.pairing is Pairing.SAME_PROCESS

    def planned(name: str, zygote: Zygote, repeats: int) -> PlannedRun:
        task = _task(name, case, source, settings, scratch, Mode.STRICT, repeats)
        path = str(traced_path(scratch, name))
        return PlannedRun(zygote=zygote, task=msgspec.structs.replace(task, steps=steps, trace_path=path))

    if same:
        return (planned(TRACE_A, Zygote.A, diverged.second.repeat + 1),)
    return planned(TRACE_A, Zygote.A, 1), planned(TRACE_B, Zygote.B, 1)


def plan_factor(
    case: Case,
    source: WorkloadSource,
    settings: Settings,
    scratch: Path,
    name: str,
    conditions: Conditions,
    *,
    pairing: Pairing,
    pairs: int,
) -> Iterator[PlannedRun]:
    """The runs that compare one repeat with so many others under conditions, all of one process or of one each.

    Args:
        name: Begins the names of the runs.
    """

    def planned(number: int, zygote: Zygote, repeats: int) -> PlannedRun:
        run = f"{name.replace(' ', '-')}-{number:03d}"  # of one length: addresses may depend on it
        task = _task(run, case, source, settings, scratch, conditions.mode, repeats)
        task = msgspec.structs.replace(task, conditions=dict(conditions.in_process))
        start = conditions.start
        own = start.fixed_addresses or start.variables
        return PlannedRun(zygote=zygote, task=task, start=start if own else None)

    if pairing is Pairing.SAME_PROCESS:
        yield planned(0, Zygote.A, pairs + 1)
        return
    yield planned(0, Zygote.A, 1)
    for number in range(1, pairs + 1):
        yield planned(number, Zygote.B, 1)


def traced_path(scratch: Path, run: str) -> Path:
    """Where a traced run writes its traces; of repeat N it is that path with ``.N`` appended."""
    return scratch / f"{run}.trace"


def fetched_path(scratch: Path, run: str, pairing: Pairing) -> Path:
    """Where a confirming run stores the diverged value of a pairing."""
    return scratch / f"{run}.{pairing.value}.pt"


def _task(
    name: str, case: Case, source: WorkloadSource, settings: Settings, scratch: Path, mode: Mode, repeats: int
) -> RunTask:
    return RunTask(
        run=name,
        source=source,
        device=case.device,
        mode=mode,
        repeats=repeats,
        steps=settings.steps,
        seed=settings.seed,
        record_path=str(scratch / f"{name}.json"),
    )
