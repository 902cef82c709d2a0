"""The report on a terminal: table, canaries, findings, summary."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from repro_audit.bounds import bound_statement
from repro_audit.known_alerts import cpu_column_note
from repro_audit.records import (
    AuditReport,
    CaseCost,
    CaseResult,
    Comparison,
    Cost,
    CublasWorkspace,
    Environment,
    Mode,
    Pairing,
    Verdict,
)
from repro_audit.report.finding import Finding, Level
from repro_audit.report.findings import arms_statement, findings
from repro_audit.report.location_findings import size_words
from repro_audit.report.plain import text
from repro_audit.verdict import WAIVED

VERDICT_STYLES = {
    Verdict.PASS: "bold green",
    Verdict.FAIL: "bold red",
    Verdict.REFUSED: "bold magenta",
    Verdict.ERROR: "bold yellow",
    Verdict.SKIP: "dim",
}

WAIVED_STYLE = "bold blue"

LEVEL_STYLES = {
    Level.FINDING: "bold red",
    Level.INCOMPLETE: "bold yellow",
    Level.WAIVED: WAIVED_STYLE,
    Level.NOTE: "bold",
}

HEADERS = ("workload", "device", "verdict", "loss\nequal", "state\nsame/fresh", "alerts", "worst\ndiff", "time")

COST_HEADER = "strict\ncost"
"""Strict over default step time, where that was measured: median, and half the distance of the quartiles."""

FLEXIBLE = {0, 6}
"""Columns that may be folded where the terminal is narrow; the others keep their width."""

DOCUMENTED = "*"
"""Marks a refusal that the workload declares, with its source."""


def report_renderable(report: AuditReport, width: int) -> RenderableType:
    """The whole report.

    Args:
        width: Columns that the console has.
    """
    parts: list[RenderableType] = [audit_table(report, width)]
    parts += [Padding(part, (0, 1)) for part in notes_below(report)]
    found = findings(report)
    if found:
        parts.append(Text(""))
        parts += [finding_renderable(finding) for finding in found]
    parts.append(Text(""))
    failed = report.summary.exit_code != 0
    parts.append(text(report.summary.statement, "bold red" if failed else "bold green"))
    return Group(*parts)


def print_report(report: AuditReport, console: Console) -> None:
    """Prints the whole report."""
    console.print(report_renderable(report, console.width))


def audit_table(report: AuditReport, width: int) -> Table:
    """One row per case.

    Args:
        width: Columns that the console has.
    """
    headers, rows = table_content(report)
    widths = [
        max([*(len(line) for line in header.split("\n")), *(cell_len(row[number].plain) for row in rows)])
        for number, header in enumerate(headers)
    ]
    tight = sum(widths) + len(widths) + 1  # the box's own: a space between columns, and one at either edge
    roomy = tight <= width
    padding = 1 if tight + len(widths) <= width else 0
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, padding, 0, 0))
    for number, header in enumerate(headers):
        table.add_column(
            header,
            justify="right" if header in ("alerts", "time", COST_HEADER) else "left",
            # A width that is known needs no measuring, which is half the cost of drawing a long table.
            width=widths[number] if roomy or number not in FLEXIBLE else None,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*row)
    return table


def table_content(report: AuditReport) -> tuple[tuple[str, ...], list[list[Text]]]:
    """Headers, and the cells of one row per case."""
    durations: dict[str, int] = {}
    for timing in report.volatile.runs:
        durations[timing.case] = durations.get(timing.case, 0) + timing.duration_ms
    rows = [_row(result, durations) for result in report.cases]
    if not report.volatile.costs:
        return HEADERS, rows
    costs = {one.case: one.time for one in report.volatile.costs}
    for row, result in zip(rows, report.cases, strict=True):
        row.append(text(_cost(costs.get(result.case.name))))
    return (*HEADERS, COST_HEADER), rows


def _row(result: CaseResult, durations: dict[str, int]) -> list[Text]:
    milliseconds = durations.get(result.case.name)
    return [
        text(result.case.workload),
        text(result.case.device),
        _verdict(result),
        text(_equal([comparison.loss_equal for comparison in result.comparisons])),
        text(_state_cell(result.comparisons)),
        text(_alert_count(result)),
        text(_worst(result)),
        text(f"{milliseconds / 1000:.2f} s" if milliseconds is not None else ""),
    ]


def _cost(cost: Cost | None) -> str:
    if cost is None:
        return "-"
    spread = (float(cost.time_high) - float(cost.time_low)) / 2
    return f"{cost.time_ratio}±{spread:.2f}"


def _is_documented(result: CaseResult) -> bool:
    return result.verdict is Verdict.REFUSED and result.declared_refusal is not None


def _verdict(result: CaseResult) -> Text:
    if result.waivers:
        return text(WAIVED, WAIVED_STYLE)
    if _is_documented(result):
        return text(f"{result.verdict.value}{DOCUMENTED}", "magenta")
    return text(result.verdict.value, VERDICT_STYLES[result.verdict])


def _equal(equal: Sequence[bool]) -> str:
    if not equal:
        return "-"
    return "yes" if all(equal) else "NO"


def _state_cell(comparisons: Sequence[Comparison]) -> str:
    if not comparisons:
        return "-"
    return "/".join(
        _equal([one.state_equal for one in comparisons if one.pairing is pairing])
        for pairing in (Pairing.SAME_PROCESS, Pairing.FRESH_PROCESS)
    )


def _alert_count(result: CaseResult) -> str:
    if not any(run.mode is Mode.WARN_ONLY for run in result.runs):
        return "-"
    return str(sum(alert.count for run in result.runs for alert in run.alerts))


def _worst(result: CaseResult) -> str:
    """The largest difference that was measured, and where; else what kind of leaf differs."""
    diverged = [one.divergence for one in result.comparisons if one.divergence is not None]
    measured = [one for one in diverged if one.distance is not None]
    if measured:
        worst = max(measured, key=lambda one: _number(one.distance.max_ulp if one.distance else None))
        if worst.distance is not None:
            return f"{size_words(worst.distance)}, {worst.leaf}"
    return f"{diverged[0].kind.value}, {diverged[0].leaf}" if diverged else ""


def _number(digits: str | None) -> int:
    return int(digits) if digits and digits.isdigit() else -1


def notes_below(report: AuditReport) -> Iterator[Text]:
    """What belongs to the table: canaries, the reach of the result, and whose cuBLAS setting it was."""
    if any(_is_documented(result) for result in report.cases):
        yield text(f"{DOCUMENTED} strict mode refuses an op there, as the workload declares with its source", "dim")
    if report.canaries:
        caught = all(canary.caught for canary in report.canaries)
        words = ", ".join(f"{canary.name} {'caught' if canary.caught else 'NOT CAUGHT'}" for canary in report.canaries)
        yield text(f"canaries: {words}", "green" if caught else "bold red")
    judged = [result for result in report.cases if result.verdict is not Verdict.SKIP]
    if any(result.verdict is Verdict.PASS for result in judged):
        yield text(f"PASS: {bound_statement(report.settings.repeats)}", "dim")
    if statement := arms_statement(report):
        yield text(statement, "dim")
    if report.volatile.costs:
        yield text(cost_note(report.volatile.costs), "dim")
    if any(result.case.device == "cpu" for result in judged):
        yield text(cpu_column_note(), "dim")
    if not any(result.case.device.startswith("cuda") for result in report.cases):
        reason = report.environment.absent_devices.get("cuda", "not selected")
        yield text(f"CUDA was not audited: {reason}", "dim")
    yield text(cublas_note(report.settings.cublas_workspace), "dim")
    for note in blind_spots(report.environment):
        yield text(note, "yellow")


def cost_note(costs: Sequence[CaseCost]) -> str:
    """What the column of costs means, and what strict mode needs of memory."""
    ratios = sorted(one.strict_bytes / one.default_bytes for one in costs if one.strict_bytes and one.default_bytes)
    memory = f"; peak memory over that in default mode: {ratios[0]:.2f} to {ratios[-1]:.2f}" if ratios else ""
    return (
        "strict cost: step time under strict mode over that in default mode, measured side by side, median and half "
        f"the distance of the quartiles{memory}"
    )


def blind_spots(environment: Environment) -> Iterator[str]:
    """What the environment keeps from showing."""
    hash_seed = environment.variables.get("PYTHONHASHSEED", "random")
    if hash_seed not in ("", "random"):
        yield f"PYTHONHASHSEED={hash_seed} in your environment: what depends on the order of sets could not show"
    if environment.flags.get("num_threads") == "1":
        yield "PyTorch had one CPU thread: races between threads could not show"


def cublas_note(workspace: CublasWorkspace) -> str:
    """Whose setting of `CUBLAS_WORKSPACE_CONFIG` the runs had."""
    if workspace.value is None:
        return "CUBLAS_WORKSPACE_CONFIG is not set, and was left so (inherit): cuBLAS need not repeat itself on CUDA"
    words = {
        "default": "set by repro-audit; export it in your own jobs, too",
        "archive": "as in the archive that is reproduced",
        "option": "set by --cublas-workspace; export it in your own jobs, too",
        "environment": "your environment's own",
        "inherit": "your environment's own, as it stands",
    }
    return f"CUBLAS_WORKSPACE_CONFIG={workspace.value}: {words.get(workspace.source, workspace.source)}"


def finding_renderable(finding: Finding) -> RenderableType:
    """A finding: its title, its lines, and what to do next."""
    parts: list[RenderableType] = [text(f"{finding.level.value}: {finding.title}", LEVEL_STYLES[finding.level])]
    parts += [Padding(text(line), (0, 0, 0, 4)) for line in finding.lines]
    if finding.next_step:
        parts.append(Padding(text(f"next: {finding.next_step}", "italic"), (0, 0, 0, 4)))
    return Group(*parts)
