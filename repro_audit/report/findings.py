"""What was found, in words: what, where first seen, how far, and the likely next step. Says only what was seen."""

import math
from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec

from repro_audit.records import (
    Alert,
    AuditReport,
    CaseResult,
    Comparison,
    Completed,
    Divergence,
    DivergenceKind,
    Failed,
    FailureKind,
    Pairing,
    Refused,
    RepeatName,
    Run,
    SourceLine,
    Verdict,
)

CONFIDENCE = 0.95


class Level(StrEnum):
    """How much a finding weighs."""

    FINDING = "finding"
    INCOMPLETE = "incomplete"
    NOTE = "note"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a reader should know."""

    level: Level
    title: str
    lines: tuple[str, ...] = ()
    next_step: str = ""


def upper_bound(repeats: int) -> float:
    """Largest divergence rate that so many repeats without divergence leave possible, at 95 % confidence.

    The exact binomial (Clopper-Pearson) bound for no event in `repeats` trials, ``1 - 0.05 ** (1 / repeats)``.
    """
    return 1.0 - math.pow(1.0 - CONFIDENCE, 1.0 / repeats)


def bound_statement(repeats: int) -> str:
    """What that many fresh processes without divergence support."""
    shown = f"{100 * upper_bound(repeats):.2g}" if repeats > 1 else "95"
    return (
        f"no divergence in {repeats} fresh-process repeat{'s' if repeats > 1 else ''} supports, with 95 % confidence, "
        f"a divergence rate below {shown} %; --repeats N lowers that bound"
    )


def findings(report: AuditReport) -> list[Finding]:
    """Everything worth saying of a report, the gravest first."""
    found = [
        Finding(
            level=Level.FINDING,
            title=f"canary {canary.name} was not caught: this audit cannot be trusted",
            lines=(f"expected: {canary.expectation}", f"seen: {canary.seen}"),
            next_step="audit on another machine, and report this as a fault of repro-audit",
        )
        for canary in report.canaries
        if not canary.caught
    ]
    for result in report.cases:
        found += _case_findings(result)
    found += _documented_refusals(report)
    found += _shared_notes(report)
    order = list(Level)
    return sorted(found, key=lambda finding: order.index(finding.level))


def _case_findings(result: CaseResult) -> Iterator[Finding]:
    name = f"{result.case.workload} on {result.case.device}"
    match result.verdict:
        case Verdict.FAIL:
            yield from _breaches(name, result)
            yield from _divergences(name, result)
            if not any(run.breaches for run in result.runs) and not _diverged(result):
                yield Finding(level=Level.FINDING, title=f"{name}: {result.reason}", lines=_outcome_lines(result))
        case Verdict.REFUSED:
            if result.declared_refusal is None:
                yield _refusal(name, result)
        case Verdict.ERROR:
            yield from _errors(name, result)
        case Verdict.PASS | Verdict.SKIP:
            pass
    yield from _non_finite(name, result)


def _breaches(name: str, result: CaseResult) -> Iterator[Finding]:
    for breach in dict.fromkeys(breach for run in result.runs for breach in run.breaches if run.mode == "strict"):
        where = f"in repeat {breach.repeat + 1}, {step_name(breach.step)}"
        yield Finding(
            level=Level.FINDING,
            title=f"{name}: the workload undid strict mode",
            lines=(
                f"setting:  {breach.setting}, {where}",
                f"expected: {breach.expected}",
                f"found:    {breach.found}",
                *_located("line:     ", breach.location),
            ),
            next_step="leave determinism settings to whoever starts the process",
        )


def _diverged(result: CaseResult) -> list[Comparison]:
    return [comparison for comparison in result.comparisons if comparison.divergence is not None]


def _divergences(name: str, result: CaseResult) -> Iterator[Finding]:
    shown: set[Pairing] = set()
    diverged = _diverged(result)
    for comparison in diverged:
        divergence = comparison.divergence
        if divergence is None or comparison.pairing in shown:
            continue
        shown.add(comparison.pairing)
        total = [one for one in result.comparisons if one.pairing is comparison.pairing]
        differing = sum(one.divergence is not None for one in total)
        title = f"{name}: {_pairing_words(comparison.pairing)} differ"
        if result.state_carried_over:
            title = f"{name}: state is carried over from the first repeat into the second"
        yield Finding(
            level=Level.FINDING,
            title=title,
            lines=(
                f"in {differing} of {len(total)} comparisons; first seen {step_name(divergence.step)}, "
                f"{divergence.kind.value}, leaf {divergence.leaf}",
                f"sha256 of {_side(comparison.first)} (first) and {_side(comparison.second)} (second):",
                f"first:  {_hex(divergence.first)}",
                f"second: {_hex(divergence.second)}",
                f"{divergence.differing_leaves} of {divergence.total_leaves} leaves of that step differ",
                *_distance_lines(divergence),
            ),
            next_step=_next_step(result, comparison, divergence),
        )


def _pairing_words(pairing: Pairing) -> str:
    return "repeats in the same process" if pairing is Pairing.SAME_PROCESS else "fresh processes"


def _side(name: RepeatName) -> str:
    return f"{name.run}, repeat {name.repeat + 1}"


def _hex(digest: str | None) -> str:
    """A digest without its algorithm: with it, an aligned pair does not fit into 80 columns."""
    return digest.removeprefix("sha256:") if digest else "absent"


def step_name(step: int) -> str:
    """A step in words; step 0 is what `setup` left."""
    return f"after step {step}" if step else "after setup"


def _distance_lines(divergence: Divergence) -> Iterator[str]:
    distance = divergence.distance
    if distance is not None:
        share = 100 * distance.differing / distance.elements if distance.elements else 0.0
        yield (
            f"{distance.differing} of {distance.elements} elements differ ({share:.3g} %), {distance.dtype}, "
            f"shape {list(distance.shape)}"
        )
        yield f"largest difference: {distance.max_absolute or 'not finite'}, {distance.max_ulp or 'no'} ULP"
        yield (f"first at index {list(distance.first_index)}: {distance.first_value} against {distance.second_value}")
    if divergence.distance_note:
        yield divergence.distance_note


def _next_step(result: CaseResult, comparison: Comparison, divergence: Divergence) -> str:
    if result.state_carried_over:
        return (
            "look for module-level state, caches and counters that outlive the first repeat; "
            "fresh processes agree, so this is no nondeterminism"
        )
    if divergence.distance_note.endswith("comes and goes"):
        return "repeat with --repeats 20 on a free machine to see how often it happens"
    if comparison.pairing is Pairing.FRESH_PROCESS and not any(
        one.divergence for one in result.comparisons if one.pairing is Pairing.SAME_PROCESS
    ):
        return "look for what a process has of its own: process id, string hashes (set order), addresses, the clock"
    if divergence.step == 0:
        return "setup differs already: look for generators that the seed does not reach, and the order of inputs"
    if divergence.kind is DivergenceKind.RNG:
        return "an extra or missing random draw: compare what each repeat draws"
    return (
        "look for generators that the seed does not reach, user threads, and in-place writes to views that alias; "
        "OMP_NUM_THREADS=1 tells whether threads matter"
    )


def _refusal(name: str, result: CaseResult) -> Finding:
    refusals = [run.outcome.alert for run in result.runs if isinstance(run.outcome, Refused)]
    return Finding(
        level=Level.FINDING,
        title=f"{name}: {result.reason}",
        lines=(*(_alert_lines(refusals[0]) if refusals else ()), *_inventory_lines(result)),
        next_step="replace the op by one that PyTorch documents as deterministic (see "
        "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html)",
    )


def _documented_refusals(report: AuditReport) -> Iterator[Finding]:
    """One finding for all refusals that the workloads declare: op probes are refused by the dozen on CUDA."""
    declared = [
        result for result in report.cases if result.verdict is Verdict.REFUSED and result.declared_refusal is not None
    ]
    if declared:
        sources = dict.fromkeys(result.declared_refusal for result in declared)
        yield Finding(
            level=Level.NOTE,
            title=f"{len(declared)} case{'s' if len(declared) > 1 else ''} refused, as declared by the workload",
            lines=(
                *(f"{result.case.workload} on {result.case.device}: {result.reason}" for result in declared),
                *(f"source: {source}" for source in sources),
            ),
        )


def _shared_notes(report: AuditReport) -> Iterator[Finding]:
    """Each note of a run once, with the cases it was made for; and why cases were skipped."""
    places: dict[str, dict[str, None]] = {}
    for result in report.cases:
        name = f"{result.case.workload} on {result.case.device}"
        notes = [note for run in result.runs for note in run.notes]
        notes += [_changed_settings(run) for run in result.runs if run.mode == "strict" and run.flags_end]
        if result.verdict is Verdict.SKIP and not result.runs:
            notes.append(f"skipped: {result.reason}")
        for note in notes:
            places.setdefault(note, {})[name] = None
    for note, names in places.items():
        yield Finding(level=Level.NOTE, title=note, lines=(", ".join(names),))


def _changed_settings(run: Run) -> str:
    """Settings that the workload left otherwise than it found them; those of strict mode are breaches as well."""
    return "settings after the last op: " + ", ".join(f"{name} is {value}" for name, value in run.flags_end.items())


def _alert_lines(alert: Alert) -> Iterator[str]:
    yield f"op: {alert.op}, {alert.phase.value}, {step_name(alert.step)}"
    yield from _located("line: ", alert.location)
    yield from _located("made by: ", alert.forward_location)


def _inventory_lines(result: CaseResult) -> Iterator[str]:
    for run in result.runs:
        for alert in run.alerts:
            place = alert.forward_location or alert.location
            where = f", {place.path}:{place.line}" if place else ""
            yield f"inventory: {alert.op}, {alert.phase.value}, {alert.count} times{where}"


def _located(label: str, location: SourceLine | None) -> Iterator[str]:
    if location is not None:
        yield f"{label}{location.path}:{location.line}  {location.text}"


def _errors(name: str, result: CaseResult) -> Iterator[Finding]:
    failures = [(run.name, run.outcome) for run in result.runs if isinstance(run.outcome, Failed)]
    if not failures:
        yield Finding(level=Level.INCOMPLETE, title=f"{name}: {result.reason}")
        return
    run, outcome = failures[0]
    others = f" (and {len(failures) - 1} more runs)" if len(failures) > 1 else ""
    yield Finding(
        level=Level.INCOMPLETE,
        title=f"{name}: {result.reason}{others}",
        lines=tuple(outcome.detail.splitlines()[-12:]),
        next_step=_ERROR_STEPS.get(outcome.kind, f"run the workload by itself; logs of {run} lie in the archive"),
    )


_ERROR_STEPS = {
    FailureKind.TIMEOUT: "raise --timeout, or look at the stack above for where it hangs",
    FailureKind.OUT_OF_MEMORY: "free memory, or make the workload smaller",
    FailureKind.EMPTY: "return from state() what must be equal bit for bit: nothing was compared",
    FailureKind.LEAF: "return from state() only what has a digest, see repro_audit/workload.py",
    FailureKind.LOSS: "return the loss from step(): a tensor of one element, or a number",
    FailureKind.IMPORT: "make the file importable by itself, with the interpreter that runs repro-audit",
    FailureKind.EXIT: "take the exit out of the workload: the auditor ends the process",
}


def _outcome_lines(result: CaseResult) -> tuple[str, ...]:
    return tuple(f"{run.name}: {_outcome_words(run.outcome)}" for run in result.runs)


def _outcome_words(outcome: Completed | Refused | Failed) -> str:
    match outcome:
        case Completed():
            return "completed"
        case Refused():
            return f"refused {outcome.alert.op}"
        case Failed():
            return f"failed: {outcome.kind.value}"


def _non_finite(name: str, result: CaseResult) -> Iterator[Finding]:
    for run in result.runs:
        if not isinstance(run.outcome, Completed) or run.mode != "strict":
            continue
        losses = [
            (result.states[digest].loss, step)
            for repeat in run.outcome.repeats
            for step, digest in enumerate(repeat.states)
        ]
        for loss, step in losses:
            if loss is None or loss.finite:
                continue
            yield Finding(
                level=Level.NOTE,
                title=f"{name}: the loss is {loss.text} {step_name(step)}",
                next_step="bits were compared all the same; if it is finite without strict mode, uninitialised memory "
                "is read, which strict mode fills with NaN",
            )
            return


def inventory_alerts(results: Sequence[CaseResult]) -> Iterator[tuple[CaseResult, Alert]]:
    """Every alert of the warn_only runs, with its case."""
    for result in results:
        for run in result.runs:
            for alert in run.alerts:
                yield result, alert
