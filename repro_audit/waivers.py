"""Accepted findings: a waiver covers a finding only as a whole, only until its day, and never makes it a PASS."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from fnmatch import fnmatchcase

from repro_audit.known_alerts import REROUTED
from repro_audit.records import Alert, Breach, CaseResult, Location, Mode, Refused, Verdict, Waiver
from repro_audit.script_records import ScriptReport

DIVERGENCE = "divergence"
"""Stands in the place of an op where two runs part and no op is known."""

SCRIPT_DEVICE = "script"
"""Stands in the place of a device where the finding is about a script."""


def is_finding(result: CaseResult) -> bool:
    """Whether the verdict fails an audit that accepts nothing."""
    return result.verdict is Verdict.FAIL or (result.verdict is Verdict.REFUSED and result.declared_refusal is None)


def case_waivers(result: CaseResult, waivers: Sequence[Waiver], day: date) -> tuple[Waiver, ...]:
    """Those of the waivers that accept a case's finding; none where they leave a part of it open.

    Args:
        day: That of the audit.
    """
    if not is_finding(result):
        return ()
    return accepted_by(result.case.workload, result.case.device, case_grounds(result), waivers, day)


def case_grounds(result: CaseResult) -> tuple[str, ...]:
    """What the finding rests on: ops that strict mode refuses, the op where repeats part, settings that were undone."""
    strict = [run for run in result.runs if run.mode is Mode.STRICT]
    return _distinct(
        (run.outcome.alert for run in strict if isinstance(run.outcome, Refused)),
        (alert for run in result.runs for alert in run.alerts),
        (breach for run in strict for breach in run.breaches),
        result.location,
        diverged=any(comparison.divergence for comparison in result.comparisons),
    )


def script_waivers(report: ScriptReport, waivers: Sequence[Waiver], day: date) -> tuple[Waiver, ...]:
    """The same for the audit of a script, whose name is in the place of the workload's."""
    if report.verdict not in (Verdict.FAIL, Verdict.REFUSED):
        return ()
    return accepted_by(report.settings.script.name, SCRIPT_DEVICE, script_grounds(report), waivers, day)


def script_grounds(report: ScriptReport) -> tuple[str, ...]:
    """What the finding on a script rests on."""
    return _distinct(
        (one.outcome.alert for one in report.recordings if isinstance(one.outcome, Refused)),
        (alert for one in report.recordings for alert in one.alerts),
        report.breaches,
        report.location,
        diverged=any(comparison.divergence for comparison in report.comparisons),
    )


def _distinct(
    refusals: Iterable[Alert],
    alerts: Iterable[Alert],
    breaches: Iterable[Breach],
    location: Location | None,
    *,
    diverged: bool,
) -> tuple[str, ...]:
    grounds = [alert.op for alert in refusals]
    grounds += [alert.op for alert in alerts if alert.op not in REROUTED]
    grounds += [breach.setting for breach in breaches]
    if diverged:
        traced = location.first if location is not None and not location.agreed else None
        grounds.append(traced.op if traced is not None else DIVERGENCE)
    return tuple(dict.fromkeys(grounds or [DIVERGENCE]))


def accepted_by(
    workload: str, device: str, grounds: Sequence[str], waivers: Sequence[Waiver], day: date
) -> tuple[Waiver, ...]:
    """The waivers that together accept all grounds of a finding; none where one is left."""
    valid = [one for one in waivers if matches(one, workload, device) and not has_expired(one, day)]
    if not all(any(fnmatchcase(ground, one.op) for one in valid) for ground in grounds):
        return ()
    return tuple(one for one in valid if any(fnmatchcase(ground, one.op) for ground in grounds))


def matches(waiver: Waiver, workload: str, device: str) -> bool:
    """Whether a waiver is about that workload on that device."""
    return fnmatchcase(workload, waiver.workload) and fnmatchcase(device, waiver.device)


def has_expired(waiver: Waiver, day: date) -> bool:
    """Whether its last day is over."""
    return date.fromisoformat(waiver.until) < day


def waiver_faults(waivers: Iterable[Waiver]) -> Iterator[str]:
    """What makes a waiver none, each as a clause."""
    for number, waiver in enumerate(waivers, 1):
        for key in ("workload", "device", "op", "reason", "who"):
            if not getattr(waiver, key).strip():
                yield f"waiver {number} has no {key}"
        try:
            if date.fromisoformat(waiver.until).isoformat() != waiver.until:
                yield f"waiver {number} ends on {waiver.until!r}, which is no day written as YYYY-MM-DD"
        except ValueError:
            yield f"waiver {number} ends on {waiver.until!r}, which is no day written as YYYY-MM-DD"


def day_of(moment: str) -> date:
    """The day of a moment in ISO 8601, as `Volatile.started` has it.

    Raises:
        ValueError: It is none.
    """
    return date.fromisoformat(moment[:10])
