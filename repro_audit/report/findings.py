"""What was found, in words: what, where first seen, how far, and the likely next step. Says only what was seen."""

from collections.abc import Iterator

from repro_audit.bounds import percentage, upper_bound
from repro_audit.records import AuditReport, CaseResult, Completed, Failed, FailureKind, Refused, Run, Verdict
from repro_audit.report.arm_findings import arm_findings
from repro_audit.report.divergence_findings import diverged, divergences
from repro_audit.report.finding import Finding, Level, located, step_name
from repro_audit.report.refusal_findings import documented_refusals, refusal
from repro_audit.report.waiver_findings import idle_waivers, waived_findings
from repro_audit.waivers import day_of


def arms_statement(report: AuditReport) -> str:
    """What the repeats in other modes support where none differs; empty where there are none."""
    arms = [arm for result in report.cases for arm in result.arms if isinstance(arm.run.outcome, Completed)]
    agreeing = [arm for arm in arms if not any(one.divergence for one in arm.comparisons)]
    if not agreeing:
        return ""
    repeats = min(len(arm.comparisons) for arm in agreeing)
    return (
        f"{len(agreeing)} of {len(arms)} repeats in default mode or without the fill showed no divergence: with 95 % "
        f"confidence each has a rate below {percentage(upper_bound(repeats))} %"
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
        found += waived_findings(_case_findings(result), result.waivers)
    used = [waiver for result in report.cases for waiver in result.waivers]
    subjects = [(result.case.workload, result.case.device) for result in report.cases if result.runs]
    found += idle_waivers(report.waivers, used, subjects, day_of(report.volatile.started))
    found += documented_refusals(report)
    found += _shared_notes(report)
    order = list(Level)
    return sorted(found, key=lambda finding: order.index(finding.level))


def _case_findings(result: CaseResult) -> Iterator[Finding]:
    name = f"{result.case.workload} on {result.case.device}"
    match result.verdict:
        case Verdict.FAIL:
            yield from _breaches(name, result)
            yield from divergences(name, result)
            if not any(run.breaches for run in result.runs) and not diverged(result):
                yield Finding(level=Level.FINDING, title=f"{name}: {result.reason}", lines=_outcome_lines(result))
        case Verdict.REFUSED:
            if result.declared_refusal is None:
                yield refusal(name, result)
        case Verdict.ERROR:
            yield from _errors(name, result)
        case Verdict.PASS | Verdict.SKIP:
            pass
    yield from arm_findings(name, result)
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
                *located("line:     ", breach.location),
            ),
            next_step="leave determinism settings to whoever starts the process",
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
