"""The matrix of a `vary` on a terminal: a row for each variation's value, a column for each case."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from repro_audit.bounds import percentage, upper_bound
from repro_audit.records import Verdict
from repro_audit.report.finding import Finding, Level, step_name
from repro_audit.report.location_findings import size_words
from repro_audit.report.plain import text
from repro_audit.report.table import VERDICT_STYLES, finding_renderable
from repro_audit.script_records import ScriptDivergence
from repro_audit.variation_records import UNVARIED, Cell, Effect, Expectation, VariationReport, VariedCase, VariedRun

COLUMNS = 4
"""Cases side by side; more of them go into further tables."""

_NOTHING = "-"


def print_matrix(report: VariationReport, console: Console) -> None:
    """Prints the whole report."""
    console.print(matrix_renderable(report))


def matrix_renderable(report: VariationReport) -> RenderableType:
    """The whole report: the matrix, what was found, and what may be claimed."""
    parts: list[RenderableType] = []
    varied = [case for case in report.cases if case.cells]
    parts += [_table(report, varied[start : start + COLUMNS]) for start in range(0, len(varied), COLUMNS)]
    for case in report.cases:
        documented = f"; documented: {case.declared_refusal}" if _is_documented(case) else ""
        parts.append(Text.assemble(text(f"{case.subject}: "), _verdict(case), text(f" {case.reason}{documented}")))
        if case.claim:
            parts.append(Padding(text(case.claim), (0, 0, 0, 4)))
        parts += [Padding(text(line, "dim"), (0, 0, 0, 4)) for line in held_lines(case)]
    found = [finding for case in report.cases for finding in variation_findings(case)]
    if found:
        parts.append(Text(""))
        parts += [finding_renderable(finding) for finding in found]
    parts.append(Text(""))
    parts.append(text(report.summary.statement, "bold red" if report.summary.exit_code else "bold green"))
    return Group(*parts)


def _table(report: VariationReport, cases: Sequence[VariedCase]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("variation", no_wrap=True)
    table.add_column("expected")
    for case in cases:
        table.add_column(text(case.subject), overflow="fold")
    for row in matrix_rows(report, cases):
        table.add_row(*row)
    return table


def matrix_rows(report: VariationReport, cases: Sequence[VariedCase]) -> Iterator[tuple[Text, ...]]:
    """Variation, what is expected, and a cell for each of the cases."""
    by_case = [{(cell.variation, cell.value): cell for cell in case.cells} for case in cases]
    for variation in report.variations:
        for value in variation.values:
            cells = [cells.get((variation.name, value)) for cells in by_case]
            if all(cell is None for cell in cells):
                continue  # for another kind of device
            strict = variation.expectation is Expectation.MUST_NOT_MATTER
            yield (
                text(f"{variation.name}={value}"),
                text("same" if strict else "any", "" if strict else "dim"),
                *(_cell(case, cell) for case, cell in zip(cases, cells, strict=True)),
            )


def _cell(case: VariedCase, cell: Cell | None) -> Text:
    if cell is None:
        return text(_NOTHING, "dim")
    match cell.effect:
        case Effect.SAME:
            return text("same", "green")
        case Effect.DIFFERS:
            style = "bold red" if cell.expectation is Expectation.MUST_NOT_MATTER else "cyan"
            return text(f"differs {where_first(case, cell)}{_distance(cell)}", style)
        case Effect.FAILED:
            return text("failed", "bold yellow")
        case Effect.NOT_JUDGED:
            return text("not judged", "yellow")
        case Effect.NOT_APPLICABLE:
            return text(_NOTHING, "dim")


def _is_documented(case: VariedCase) -> bool:
    return case.verdict is Verdict.REFUSED and case.declared_refusal is not None


def _verdict(case: VariedCase) -> Text:
    return text(case.verdict.value, VERDICT_STYLES[case.verdict])


def where_first(case: VariedCase, cell: Cell) -> str:
    """Where the bits under a variation part from the reference's, in words."""
    run = _first_differing(case, cell)
    if run is None:
        return ""
    if run.divergence is not None:
        return f"{step_name(run.divergence.step)}: {run.divergence.leaf}"
    return _script_place(run.script_divergence) if run.script_divergence is not None else ""


def _script_place(divergence: ScriptDivergence) -> str:
    return f"{step_name(divergence.step)}: {divergence.point.value} of {divergence.name}"


def _first_differing(case: VariedCase, cell: Cell) -> VariedRun | None:
    named = (run for run in case.runs if (run.variation, run.value) == (cell.variation, cell.value))
    return next((run for run in named if run.result > 0), None)


def _distance(cell: Cell) -> str:
    return f", {size_words(cell.distance)}" if cell.distance is not None else ""


def held_lines(case: VariedCase) -> Iterator[str]:
    """What was held while one condition was changed, and what so many runs support."""
    judged = {cell.variation for cell in case.cells if cell.effect in (Effect.SAME, Effect.DIFFERS)}
    shown = [f"{name} {value}" for name, value in case.held.items() if name in judged and value != "as it is"]
    if shown:
        yield "held in the unvaried runs: " + ", ".join(shown)
    fewest = min((cell.runs for cell in case.cells if cell.effect is Effect.SAME), default=0)
    if fewest:
        yield (
            f"{fewest} run{'s' if fewest > 1 else ''} for each variation that changed nothing: with 95 % confidence it "
            f"changes fewer than {percentage(upper_bound(fewest))} % of runs; --repeats N lowers that bound"
        )


def variation_findings(case: VariedCase) -> Iterator[Finding]:
    """What a reader should know of the cells, the gravest first."""
    differing: dict[str, list[Cell]] = {}
    for cell in case.cells:
        if cell.effect is Effect.DIFFERS:
            differing.setdefault(cell.variation, []).append(cell)
    for name, cells in sorted(differing.items(), key=lambda item: item[1][0].expectation is Expectation.PART_OF_CLAIM):
        strict = cells[0].expectation is Expectation.MUST_NOT_MATTER
        yield Finding(
            level=Level.FINDING if strict else Level.NOTE,
            title=f"{case.subject}: bits depend on {name}"
            + (", which must not matter" if strict else ": part of the claim"),
            lines=(
                *(line for cell in cells for line in _differing_lines(case, cell)),
                f"the {_unvaried_count(case)} unvaried runs agree",
            ),
            next_step=_NEXT_STEPS.get(name, "") if strict else "",
        )
    for cell in case.cells:
        if cell.effect is Effect.FAILED:
            yield Finding(
                level=Level.INCOMPLETE,
                title=f"{case.subject}: a run under {cell.variation}={cell.value} did not come to its end",
                lines=(cell.reason,),
                next_step="the logs of that run lie in the archive",
            )
    for note in dict.fromkeys(run.note for run in case.runs if run.note):
        yield Finding(level=Level.NOTE, title=f"{case.subject}: {note}")
    reasons: dict[str, list[str]] = {}
    for cell in case.cells:
        if cell.effect in (Effect.NOT_APPLICABLE, Effect.NOT_JUDGED) and case.verdict is not Verdict.SKIP:
            reasons.setdefault(cell.reason, []).append(f"{cell.variation}={cell.value}")
    for reason, names in reasons.items():
        yield Finding(level=Level.NOTE, title=f"{case.subject}: {', '.join(names)} not made: {reason}")


def _differing_lines(case: VariedCase, cell: Cell) -> Iterator[str]:
    distinct = f", {cell.distinct} distinct" if cell.distinct > 1 else ""
    yield (
        f"{cell.variation}={cell.value}: {cell.differing} of {cell.runs} runs differ{distinct}, first seen "
        f"{where_first(case, cell)}{_distance(cell)}"
    )
    if cell.distance_note:
        yield f"    {cell.distance_note}"


def _unvaried_count(case: VariedCase) -> int:
    return sum(run.variation == UNVARIED for run in case.runs)


_NEXT_STEPS = {
    "hashseed": "sort sets, and what is grouped by hash, before iterating; never derive a number from hash()",
    "malloc": "write to memory before it is read: numpy.zeros in the place of numpy.empty",
    "fill": "write to what torch.empty returns before it is read, or ask for torch.zeros",
    "aslr": "let nothing depend on addresses: id(), the order of objects without an order of their own",
    "tz": "work in UTC, with aware datetimes",
    "locale": "name the locale, or the encoding, where text is sorted, parsed or written",
    "umask": "do not derive anything from the permissions of new files",
    "cwd": "build paths from the location of a file, not from the current folder",
    "home": "name the files that are read from the home folder, and archive them with the evidence",
    "tmpdir": "do not derive anything from the names of temporary files",
    "file-order": "sort what os.listdir, os.scandir, glob and Path.iterdir return",
    "clock": "seed from a constant, and let nothing depend on the time",
    "contention": "look for races: threads of your own, writes to views that alias, timeouts",
    "launch-blocking": "look for a missing synchronisation between streams",
    "allocator": "look for reads of uninitialised or freed device memory",
    "device-index": "look for what names a device by its number",
}
"""What to do where a variation matters that must not."""
