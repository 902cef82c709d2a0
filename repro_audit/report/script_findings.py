"""What the audit of a script found, in words: where two runs part, the op, the cause, what else matters."""

from collections.abc import Iterator

from repro_audit.records import Breach, Failed, Refused, Verdict
from repro_audit.report.finding import Finding, Level
from repro_audit.report.location_findings import location_findings, place
from repro_audit.report.waiver_findings import idle_waivers, waived_findings
from repro_audit.script_records import Recording, ScriptDivergence, ScriptReport
from repro_audit.waivers import SCRIPT_DEVICE, day_of


def script_findings(report: ScriptReport) -> list[Finding]:
    """The findings, the most important first."""
    found = (
        *(_breach(breach) for breach in report.breaches),
        *_divergences(report),
        *location_findings(report.location),
        *_causes(report),
        *_outcomes(report),
        *_alerts(report),
    )
    subject = (report.settings.script.name, SCRIPT_DEVICE)
    return [
        *waived_findings(found, report.waived),
        *idle_waivers(report.waivers, report.waived, [subject], day_of(report.volatile.started)),
        *(Finding(level=Level.NOTE, title=note) for note in report.notes),
    ]


def _breach(breach: Breach) -> Finding:
    return Finding(
        level=Level.FINDING,
        title=f"the script undid strict mode: {breach.setting} was {breach.found} instead of {breach.expected}",
        lines=(place(breach.location),) if breach.location is not None else (f"after {breach.step} optimizer steps",),
        next_step="leave the setting as strict mode has it, or the result is no evidence for strict mode",
    )


def _divergences(report: ScriptReport) -> Iterator[Finding]:
    diverged = [one for one in report.comparisons if one.divergence is not None]
    for comparison in diverged[:1]:
        divergence = comparison.divergence
        if divergence is None:
            continue
        yield Finding(
            level=Level.FINDING,
            title=f"two runs differ ({len(diverged)} of {len(report.comparisons)} differ from the first)",
            lines=(
                *divergence_lines(divergence, comparison.first, comparison.second),
                f"losses: {comparison.losses_equal} of {comparison.losses} are equal; "
                f"{comparison.observations} points were compared",
            ),
        )


def divergence_lines(divergence: ScriptDivergence, first: str, second: str) -> Iterator[str]:
    """Where two runs part, line by line."""
    stream = "" if divergence.stream == "main" else f" in process {divergence.stream}"
    point = f"{divergence.point.value} of {divergence.name}"
    yield f"first seen at {point}{stream}, after {divergence.step} optimizer steps"
    if divergence.line is not None:
        yield place(divergence.line)
    if divergence.role is None:
        yield "the runs do not do the same there:"
    else:
        differing = f"{divergence.differing_leaves} of {divergence.total_leaves} leaves differ"
        yield f"leaf {divergence.leaf}, {divergence.role.value}; {differing}"
    yield f"first  ({first}): {_told(divergence.first, divergence, 0)}"
    yield f"second ({second}): {_told(divergence.second, divergence, 1)}"


def _told(digest: str | None, divergence: ScriptDivergence, side: int) -> str:
    loss = (divergence.first_loss, divergence.second_loss)[side]
    if digest is None:
        return "absent"
    if loss is not None and divergence.role is not None and divergence.role.value == "loss":
        return f"{loss.text}  ({loss.bits})"
    return digest


def _causes(report: ScriptReport) -> Iterator[Finding]:
    for cause in report.causes:
        lines = [place(cause.line)] if cause.line is not None else []
        yield Finding(
            level=Level.FINDING,
            title=f"cause: {cause.kind.value}: {cause.statement}",
            lines=(*lines, f"shown by: {cause.proof}"),
        )
    if report.tests:
        yield Finding(level=Level.NOTE, title="conditions that were held fixed to find the cause", lines=report.tests)


def _outcomes(report: ScriptReport) -> Iterator[Finding]:
    shown: set[str] = set()
    for recording in report.recordings:
        finding = _outcome(recording)
        if finding is not None and str(finding.lines) not in shown:
            shown.add(str(finding.lines))
            yield finding


def _outcome(recording: Recording) -> Finding | None:
    match recording.outcome:
        case Refused(alert=alert):
            return Finding(
                level=Level.FINDING,
                title=f"strict mode refused {alert.op}, after {alert.step} optimizer steps",
                lines=(place(alert.location), alert.message.splitlines()[0]),
                next_step="use another op there; what the script does after it was not observed",
            )
        case Failed(kind=kind, detail=detail):
            return Finding(
                level=Level.INCOMPLETE,
                title=f"run {recording.name} could not be judged: {kind.value}",
                lines=tuple(detail.splitlines()[-12:]),
            )
        case _ if getattr(recording.outcome, "exit_code", 0):
            return Finding(
                level=Level.INCOMPLETE,
                title=f"the script ended with exit code {getattr(recording.outcome, 'exit_code', 0)}",
                next_step="what it printed is in logs/ beside the evidence",
            )
    return None


def _alerts(report: ScriptReport) -> Iterator[Finding]:
    if report.verdict is Verdict.REFUSED or any(one.alerts for one in report.recordings):
        lines = [
            f"{alert.op}, {alert.phase.value}, {alert.count} times: {place(alert.forward_location or alert.location)}"
            for one in report.recordings
            for alert in one.alerts
        ]
        if lines:
            yield Finding(
                level=Level.NOTE, title="ops without a deterministic implementation (warn_only run)", lines=tuple(lines)
            )
