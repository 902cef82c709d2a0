"""The inventory on a terminal: every op that strict mode would refuse, and where it is called."""

from collections.abc import Iterator
from pathlib import PurePath

from rich import box
from rich.console import Console
from rich.table import Table

from repro_audit.records import Alert, AuditReport, SourceLine
from repro_audit.report.findings import findings
from repro_audit.report.plain import text
from repro_audit.report.refusal_findings import inventory_alerts

HEADERS = ("op", "phase", "device", "count", "first\nstep", "workload", "line")


def inventory_table(report: AuditReport) -> Table:
    """One row per op, phase, device and source line."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for header in HEADERS:
        foldable = header in ("op", "workload", "line")
        table.add_column(
            header,
            overflow="fold",
            no_wrap=not foldable,
            justify="right" if header in ("count", "first\nstep") else "left",
        )
    for *cells, place in inventory_rows(report):
        shown = f"{PurePath(place.path).name}:{place.line}" if place is not None else "unknown"
        table.add_row(*(text(cell) for cell in (*cells, shown)))
    return table


def inventory_rows(report: AuditReport) -> Iterator[tuple[str, str, str, str, str, str, SourceLine | None]]:
    """Op, phase, device, count, first step, workloads and line, sorted."""
    rows: dict[tuple[str, str, str, tuple[str, int]], tuple[int, int, dict[str, None], SourceLine | None]] = {}
    for result, alert in inventory_alerts(report.cases):
        place = _place(alert)
        key = (alert.op, alert.phase.value, result.case.device, (place.path, place.line) if place else ("", 0))
        count, step, workloads, _ = rows.get(key, (0, alert.step, {}, place))
        workloads[result.case.workload] = None
        rows[key] = count + alert.count, min(step, alert.step), workloads, place
    for key in sorted(rows):
        count, step, names, place = rows[key]
        yield (*key[:3], str(count), "setup" if step == 0 else str(step), ", ".join(names), place)


def _place(alert: Alert) -> SourceLine | None:
    """The line to look at: for a backward alert the forward line that made the op, where it is known."""
    return alert.forward_location or alert.location


def _places(report: AuditReport) -> list[str]:
    """Every line that the table names, in full: two files may have one name."""
    places = {place for _, alert in inventory_alerts(report.cases) if (place := _place(alert)) is not None}
    return [
        f"{place.path}:{place.line}  {place.text}" for place in sorted(places, key=lambda one: (one.path, one.line))
    ]


def print_inventory(report: AuditReport, console: Console) -> None:
    """Prints the table, what could not be run, and a reminder of what an inventory is not."""
    console.print(inventory_table(report))
    for place in _places(report):
        console.print(text(place))
    made = [result for result in report.cases if result.runs]
    silent = [result for result in made if not any(run.alerts for run in result.runs)]
    console.print(text(f"{len(silent)} of {len(made)} cases raised no alert."))
    for finding in findings(report):
        console.print(text(f"{finding.level.value}: {finding.title}"))
        for line in finding.lines:
            console.print(text(f"    {line}"))
    console.print(text(report.summary.statement, "bold"))
    console.print(text("A dry run with warn_only is an inventory, never evidence of repeatability.", "dim"))
