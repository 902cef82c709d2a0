"""The inventory on a terminal: every op that strict mode would refuse, and where it is called."""

from pathlib import PurePath

from rich import box
from rich.console import Console
from rich.table import Table

from repro_audit.records import Alert, AuditReport, SourceLine
from repro_audit.report.findings import findings
from repro_audit.report.plain import text
from repro_audit.report.refusal_findings import inventory_alerts


def inventory_table(report: AuditReport) -> Table:
    """One row per op, phase, device and source line."""
    rows: dict[tuple[str, str, str, tuple[str, int]], tuple[int, int, dict[str, None]]] = {}
    for result, alert in inventory_alerts(report.cases):
        place = _place(alert)
        key = (alert.op, alert.phase.value, result.case.device, (place.path, place.line) if place else ("", 0))
        count, step, workloads = rows.get(key, (0, alert.step, {}))
        workloads[result.case.workload] = None
        rows[key] = count + alert.count, min(step, alert.step), workloads
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("op", overflow="fold")
    table.add_column("phase", no_wrap=True)
    table.add_column("device", no_wrap=True)
    table.add_column("count", justify="right", no_wrap=True)
    table.add_column("first\nstep", justify="right", no_wrap=True)
    table.add_column("workload", overflow="fold")
    table.add_column("line", overflow="fold")
    for (op, phase, device, (path, line)), (count, step, names) in sorted(rows.items()):
        shown = "setup" if step == 0 else str(step)
        short = f"{PurePath(path).name}:{line}" if path else "unknown"
        table.add_row(*(text(cell) for cell in (op, phase, device, count, shown, ", ".join(names), short)))
    return table


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
