"""After a divergence: measures it, finds its op, and tells state carried over from nondeterminism, by running again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from repro_audit.compare import REFERENCE_RUN
from repro_audit.launch import Launched, Launcher
from repro_audit.plan import (
    CONFIRM_A,
    CONFIRM_B,
    TRACE_A,
    TRACE_B,
    PlannedRun,
    fetched_path,
    plan_confirmation,
    plan_trace,
    traced_path,
)
from repro_audit.records import (
    Case,
    Comparison,
    Completed,
    Divergence,
    Location,
    MeasureTask,
    Pairing,
    Repeat,
    Run,
    Settings,
    States,
    WorkloadSource,
)
from repro_audit.script_location import locate_origin


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """What running again after a divergence showed."""

    comparisons: tuple[Comparison, ...]
    """The comparisons of the audit, with distances where they could be measured."""
    launched: tuple[Launched, ...]
    state_carried_over: bool


def confirm(
    case: Case,
    source: WorkloadSource,
    settings: Settings,
    scratch: Path,
    runs: Sequence[Run],
    comparisons: Sequence[Comparison],
    make: Callable[[Case, Sequence[PlannedRun]], list[Launched]],
    launcher: Launcher,
) -> Confirmation:
    """Runs a diverged case again, once in each interpreter.

    Args:
        runs: The runs that were compared.
        make: Makes planned runs, one after the other.
    """
    first_of_each = {
        comparison.pairing: comparison for comparison in reversed(comparisons) if comparison.divergence is not None
    }
    launched = make(case, plan_confirmation(case, source, settings, scratch, tuple(first_of_each.values())))
    states = {digest: state for made in launched for digest, state in made.states.items()}
    again = {made.run.name: made.run.outcome for made in launched}
    measured: list[Comparison] = []
    for comparison in comparisons:
        if comparison is first_of_each.get(comparison.pairing) and comparison.divergence is not None:
            second = _repeat(again.get(CONFIRM_B), comparison.second.repeat)
            divergence = _measured(
                comparison.divergence,
                comparison.pairing,
                (_repeat(again.get(CONFIRM_A), 0), second),
                states,
                scratch,
                launcher,
            )
            measured.append(msgspec.structs.replace(comparison, divergence=divergence))
        else:
            measured.append(comparison)
    outcomes = {run.name: run.outcome for run in runs}
    carried_over = Pairing.FRESH_PROCESS not in first_of_each and all(
        (one := _repeat(again.get(CONFIRM_B), n)) is not None and one == _repeat(outcomes.get(REFERENCE_RUN), n)
        for n in range(2)
    )
    return Confirmation(comparisons=tuple(measured), launched=tuple(launched), state_carried_over=carried_over)


def locate(
    case: Case,
    source: WorkloadSource,
    settings: Settings,
    scratch: Path,
    comparisons: Sequence[Comparison],
    make: Callable[[Case, Sequence[PlannedRun]], list[Launched]],
) -> Location | None:
    """Traces the repeats of a diverged case and finds the op where they part; None where that cannot be had.

    Fresh processes are taken where they differ, else the repeats of one process.
    """
    diverged = [one for one in comparisons if one.divergence is not None]
    fresh = [one for one in diverged if one.pairing is Pairing.FRESH_PROCESS]
    chosen = next(iter(fresh or diverged), None)
    if chosen is None:
        return None
    make(case, plan_trace(case, source, settings, scratch, chosen))
    same = chosen.pairing is Pairing.SAME_PROCESS
    first = traced_path(scratch, TRACE_A)
    second = first if same else traced_path(scratch, TRACE_B)
    return locate_origin(
        Path(f"{first}.0"),
        Path(f"{second}.{chosen.second.repeat if same else 0}"),
        f"setup and the steps up to {chosen.divergence.step if chosen.divergence else 0}",
    )


def _repeat(outcome: object, index: int) -> Repeat | None:
    if isinstance(outcome, Completed) and index < len(outcome.repeats):
        return outcome.repeats[index]
    return None


def _measured(
    divergence: Divergence,
    pairing: Pairing,
    repeats: tuple[Repeat | None, Repeat | None],
    states: States,
    scratch: Path,
    launcher: Launcher,
) -> Divergence:
    """The divergence with its distance, or with a note why there is none."""
    if divergence.first is None or divergence.second is None:
        return msgspec.structs.replace(divergence, distance_note="the leaf is absent on one side")
    first, second = (_digest(repeat, divergence, states) for repeat in repeats)
    if first is None or second is None:
        return msgspec.structs.replace(divergence, distance_note="a second pair of runs did not get that far")
    if first == second:
        return msgspec.structs.replace(
            divergence, distance_note="a second pair of runs agreed there: the divergence comes and goes"
        )
    measurement = launcher.measure(
        MeasureTask(
            first_path=str(fetched_path(scratch, CONFIRM_A, pairing)),
            second_path=str(fetched_path(scratch, CONFIRM_B, pairing)),
            record_path=str(scratch / f"distance.{pairing.value}.json"),
        )
    )
    if measurement is None:
        return msgspec.structs.replace(divergence, distance_note="the distance could not be measured")
    note = "" if measurement.distance else "the two values have no distance: other dtypes, shapes or kinds"
    if measurement.distance and (first, second) != (divergence.first, divergence.second):
        note = "measured in a second pair of runs, whose values differ from the first pair's"
    return msgspec.structs.replace(divergence, distance=measurement.distance, distance_note=note)


def _digest(repeat: Repeat | None, divergence: Divergence, states: States) -> str | None:
    if repeat is None or divergence.step >= len(repeat.states):
        return None
    return states[repeat.states[divergence.step]].leaves.get(divergence.leaf)
