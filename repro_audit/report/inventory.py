"""The inventory on a terminal: every op that strict mode would refuse, and where it is called."""

from rich import box
from rich.console import Console
from rich.table import Table

from repro_audit.records import Alert, AuditReport, Mode
from repro_audit.report.findings import findings, inventory_alerts
from repro_audit.report.plain import text


def is_inventory(report: AuditReport) -> bool:
    """Whether a report holds warn_only runs and no others."""
    modes = {run.mode for result in report.cases for run in result.runs}
    return modes == {Mode.WARN_ONLY}


def inventory_table(report: AuditReport) -> Table:
    """One row per op, phase, device and source line."""
    rows: dict[tuple[str, str, str, str], tuple[int, int, dict[str, None]]] = {}
    for result, alert in inventory_alerts(report.cases):
        key = (alert.op, alert.phase.value, result.case.device, _place(alert))
        count, step, workloads = rows.get(key, (0, alert.step, {}))
        workloads[result.case.workload] = None
        rows[key] = count + alert.count, min(step, alert.step), workloads
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("op", overflow="fold")
    table.add_column("phase", no_wrap=True)
    table.add_column("device", no_wrap=True)
    table.add_column("count", justify="right", no_wrap=True)
    table.add_column("first\nstep", justify="right", no_wrap=True)
    table.add_column("workload", overflow="fold")
    table.add_column("line", overflow="fold")
    for (op, phase, device, place), (count, step, names) in sorted(rows.items()):
        shown = "setup" if step == 0 else str(step)
        table.add_row(*(text(cell) for cell in (op, phase, device, count, shown, ", ".join(names), place)))
    return table


def _place(alert: Alert) -> str:
    """The line to look at: for a backward alert the forward line that made the op, where it is known."""
    place = alert.forward_location or alert.location
    if place is None:
        return "unknown"
    return f"{place.path}:{place.line}  {place.text}"


def print_inventory(report: AuditReport, console: Console) -> None:
    """Prints the table, what could not be run, and a reminder of what an inventory is not."""
    console.print(inventory_table(report))
    made = [result for result in report.cases if result.runs]
    silent = [result for result in made if not any(run.alerts for run in result.runs)]
    console.print(text(f"{len(silent)} of {len(made)} cases raised no alert."))
    for finding in findings(report):
        console.print(text(f"{finding.level.value}: {finding.title}"))
        for line in finding.lines:
            console.print(text(f"    {line}"))
    console.print(text(report.summary.statement, "bold"))
    console.print(text("A dry run with warn_only is an inventory, never evidence of repeatability.", "dim"))
