"""What strict mode refuses, in words."""

from collections.abc import Iterator, Sequence

from repro_audit.records import Alert, AuditReport, CaseResult, Refused, Verdict
from repro_audit.report.finding import Finding, Level, located, step_name


def refusal(name: str, result: CaseResult) -> Finding:
    """The finding of a refusal that the workload does not declare."""
    refusals = [run.outcome.alert for run in result.runs if isinstance(run.outcome, Refused)]
    return Finding(
        level=Level.FINDING,
        title=f"{name}: {result.reason}",
        lines=(*(_alert_lines(refusals[0]) if refusals else ()), *_inventory_lines(result)),
        next_step="replace the op by one that PyTorch documents as deterministic (see "
        "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html)",
    )


def documented_refusals(report: AuditReport) -> Iterator[Finding]:
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


def _alert_lines(alert: Alert) -> Iterator[str]:
    yield f"op: {alert.op}, {alert.phase.value}, {step_name(alert.step)}"
    yield from located("line: ", alert.location)
    yield from located("made by: ", alert.forward_location)


def _inventory_lines(result: CaseResult) -> Iterator[str]:
    for run in result.runs:
        for alert in run.alerts:
            place = alert.forward_location or alert.location
            where = f", {place.path}:{place.line}" if place else ""
            yield f"inventory: {alert.op}, {alert.phase.value}, {alert.count} times{where}"


def inventory_alerts(results: Sequence[CaseResult]) -> Iterator[tuple[CaseResult, Alert]]:
    """Every alert of the warn_only runs, with its case."""
    for result in results:
        for run in result.runs:
            for alert in run.alerts:
                yield result, alert
