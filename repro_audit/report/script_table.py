"""The report on a script: a table of its runs, then findings in words."""

from collections.abc import Iterator

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from repro_audit.changes import environment_changes
from repro_audit.recording import Recorded
from repro_audit.records import Mode, Verdict
from repro_audit.report.plain import printable, text
from repro_audit.report.script_findings import divergence_lines, script_findings
from repro_audit.report.table import VERDICT_STYLES, WAIVED_STYLE, blind_spots, cublas_note, finding_renderable
from repro_audit.script_records import Recording, ScriptComparison, ScriptReport
from repro_audit.script_verdict import describe_outcome
from repro_audit.verdict import WAIVED


def print_report(report: ScriptReport, console: Console) -> None:
    """Prints the whole report."""
    console.print(script_renderable(report))


def script_renderable(report: ScriptReport) -> RenderableType:
    """The whole report."""
    parts: list[RenderableType] = [_heading(report), _runs(report)]
    parts += [Padding(text(note, "dim"), (0, 1)) for note in notes_below(report)]
    for finding in script_findings(report):
        parts += [Text(""), finding_renderable(finding)]
    style = WAIVED_STYLE if report.waived else VERDICT_STYLES[report.verdict]
    style = style if report.summary.complete else "bold yellow"
    parts += [Text(""), text(report.summary.statement, style)]
    return Group(*parts)


def _heading(report: ScriptReport) -> Text:
    script = report.settings.script
    command = ("-m " if script.is_module else "") + " ".join((script.name, *script.arguments))
    if report.waived:
        return text(f"{WAIVED} ({report.verdict.value})  {command}", WAIVED_STYLE)
    return text(f"{report.verdict.value}  {command}", VERDICT_STYLES[report.verdict])


RUN_HEADERS = ("run", "ended", "points", "losses\nequal", "state\nequal", "alerts", "time")


def _runs(report: ScriptReport) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for header in RUN_HEADERS:
        table.add_column(header, overflow="fold")
    for row in run_rows(report):
        table.add_row(*row)
    return table


def run_rows(report: ScriptReport) -> Iterator[tuple[Text, ...]]:
    """The cells of one row per run."""
    times = {timing.run: timing.duration_ms for timing in report.volatile.runs}
    compared = {comparison.second: comparison for comparison in report.comparisons}
    for recording in report.recordings:
        points = sum(stream.observations for stream in recording.streams)
        milliseconds = times.get(recording.name)
        yield (
            text(recording.name),
            text(describe_outcome(recording)),
            text(points),
            text(_losses(compared.get(recording.name))),
            text(_state(recording, compared.get(recording.name))),
            text(sum(alert.count for alert in recording.alerts) if recording.mode is Mode.WARN_ONLY else "-"),
            text(f"{milliseconds / 1000:.2f} s" if milliseconds is not None else ""),
        )


def _losses(comparison: ScriptComparison | None) -> str:
    return f"{comparison.losses_equal}/{comparison.losses}" if comparison is not None else "-"


def _state(recording: Recording, comparison: ScriptComparison | None) -> str:
    if comparison is None:
        return "-" if recording.mode is Mode.WARN_ONLY else "reference"
    return "yes" if comparison.divergence is None else "NO"


def notes_below(report: ScriptReport) -> Iterator[str]:
    """What belongs to the table: how the runs were made, and what keeps from showing."""
    threads = report.environment.flags.get("num_threads", "?")
    yield f"each run in a process of its own, {threads} CPU threads; what is not seeded by the script is not seeded"
    if report.settings.copied:
        yield "each run in its own copy of the working directory, so that none saw the files of another"
    yield cublas_note(report.settings.cublas_workspace)
    yield from blind_spots(report.environment)


def comparison_text(
    comparison: ScriptComparison, first: Recorded, second: Recorded, judgement: tuple[Verdict, str], rank: str
) -> Iterator[str]:
    """A comparison of two recordings that stand for themselves, line by line.

    Args:
        judgement: Verdict and reason.
        rank: The rank in a distributed job; empty where there is none.
    """
    verdict, reason = judgement
    yield printable(f"{f'{rank}: ' if rank else ''}{verdict.value}: {reason} ({first.folder}, {second.folder})")
    if comparison.divergence is not None:
        for line in divergence_lines(comparison.divergence, str(first.folder), str(second.folder)):
            yield printable(f"    {line}")
        yield f"    losses: {comparison.losses_equal} of {comparison.losses} are equal"
    for note in (*comparison.notes, *_conditions(first.recording, second.recording)):
        yield printable(f"    note: {note}")


def _conditions(first: Recording, second: Recording) -> Iterator[str]:
    """What else than chance may have made two recordings differ."""
    if first.script.sha256 != second.script.sha256:
        yield "the script was changed between the recordings"
    if first.script.arguments != second.script.arguments:
        yield f"the script was given other arguments: {' '.join(first.script.arguments) or 'none'} and " + (
            " ".join(second.script.arguments) or "none"
        )
    modes = [recording.mode.value if recording.mode is not None else "none" for recording in (first, second)]
    if modes[0] != modes[1]:
        yield f"recorded with other modes: {modes[0]} and {modes[1]}"
    elif modes[0] != Mode.STRICT.value:
        yield f"recorded with --mode {modes[0]}: no evidence for strict mode"
    if first.environment is not None and second.environment is not None:
        for changed in environment_changes(first.environment, second.environment):
            # What PyTorch says of its build fills pages, and its version tells the same.
            if changed.condition and "\n" not in f"{changed.first}{changed.second}":
                yield f"other {changed.name}: {changed.first or 'absent'} and {changed.second or 'absent'}"
