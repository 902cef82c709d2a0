"""A report as headings, sentences, tables and figures: what HTML and Markdown are drawn from."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import assert_never

import msgspec

from repro_audit.exit_codes import ExitCode
from repro_audit.flattened import flattened
from repro_audit.records import AuditReport, CaseResult, Configuration, Environment, Verdict, Waiver
from repro_audit.report.curves import case_figures, script_figures
from repro_audit.report.evidence import Report
from repro_audit.report.finding import Finding
from repro_audit.report.findings import findings
from repro_audit.report.inventory import HEADERS as INVENTORY_HEADERS
from repro_audit.report.inventory import inventory_rows
from repro_audit.report.location_findings import place
from repro_audit.report.plain import printable
from repro_audit.report.script_findings import script_findings
from repro_audit.report.script_table import RUN_HEADERS, run_rows
from repro_audit.report.script_table import notes_below as script_notes
from repro_audit.report.sections import Document, Figure, Section
from repro_audit.report.table import notes_below, table_content
from repro_audit.report.variation_matrix import held_lines, matrix_rows, variation_findings
from repro_audit.script_records import ScriptReport
from repro_audit.variation_records import VariationReport
from repro_audit.verdict import WAIVED, is_inventory, shown_verdict

VERDICT_WORDS = {
    ExitCode.VERIFIED: "VERIFIED",
    ExitCode.FINDING: "FINDING",
    ExitCode.INCOMPLETE: "INCOMPLETE",
    ExitCode.NOTHING: "NOTHING AUDITED",
    ExitCode.INTERRUPTED: "INTERRUPTED",
}
"""The whole in a word, by exit code."""


def document_of(report: Report, folder: Path | None = None) -> Document:
    """The document of a report: verdict first, then what was compared and found, then what it rests on.

    Args:
        folder: The archive, whose recordings are drawn where the report is on a script.
    """
    match report:
        case AuditReport():
            title = "Inventory of refused ops" if is_inventory(report.settings) else "Reproducibility audit"
            sections = _audit_sections(report)
        case ScriptReport():
            title = f"Reproducibility audit of {report.settings.script.name}"
            sections = _script_sections(report, folder)
        case VariationReport():
            title = "Reproducibility under variations"
            sections = _variation_sections(report)
        case _:
            assert_never(report)
    return Document(
        title=title,
        verdict=verdict_word(report),
        statement=report.summary.statement,
        facts=_facts(report),
        sections=(*sections, *_common_sections(report)),
    )


def verdict_word(report: Report) -> str:
    """The whole in a word; an inventory has no verdict."""
    code = ExitCode(report.summary.exit_code)
    if isinstance(report, AuditReport) and is_inventory(report.settings) and code is ExitCode.VERIFIED:
        return "INVENTORY"
    return VERDICT_WORDS.get(code, code.name)


def _facts(report: Report) -> tuple[tuple[str, str], ...]:
    environment, volatile = report.environment, report.volatile
    devices = ", ".join(f"{device.name} ({device.description})" for device in environment.devices)
    facts = (
        ("archive", volatile.audit),
        ("made", f"{volatile.started} on {volatile.host}, in {volatile.duration_ms / 1000:.1f} s"),
        ("PyTorch", environment.torch.get("version", "unknown")),
        ("Python", environment.python.get("version", "unknown")),
        ("devices", devices),
        ("tool", f"{report.tool.get('name', '')} {report.tool.get('version', '')}"),
        ("digest of the result", report.result_digest or "none: evidence of schema 1"),
    )
    return tuple((name, printable(value)) for name, value in facts)


# ------------------------------------------------------------------------------------------- workloads


def _audit_sections(report: AuditReport) -> Iterator[Section]:
    if is_inventory(report.settings):
        yield _inventory_section(report)
    else:
        headers, rows = table_content(report)
        yield Section(
            title="Cases",
            headers=tuple(header.replace("\n", " ") for header in headers),
            rows=tuple(tuple(cell.plain for cell in row) for row in rows),
            lines=tuple(line.plain for line in notes_below(report)),
        )
    yield from finding_sections(findings(report))
    if report.waivers:
        yield _waiver_section(report.waivers)
    figures = [part for result in report.cases if (part := _case_section(result)) is not None]
    if figures:
        yield Section(
            title="Case by case",
            lines=("All repeats of a case laid over each other, and how far each is from the first one.",),
            parts=tuple(figures),
        )
    if not is_inventory(report.settings):
        yield _inventory_section(report)


def _case_section(result: CaseResult) -> Section | None:
    figures = _drawn(case_figures(result))
    if not figures:
        return None
    return Section(
        title=printable(f"{result.case.workload} on {result.case.device}: {shown_verdict(result)}"),
        lines=(printable(result.reason),),
        figures=figures,
        folded=result.verdict is Verdict.PASS,
    )


def _drawn(figures: Iterable[tuple[str, str]]) -> tuple[Figure, ...]:
    return tuple(Figure(svg=svg, caption=caption) for svg, caption in figures)


def _inventory_section(report: AuditReport) -> Section:
    rows = tuple(
        tuple(printable(cell) for cell in (*cells, place(line) if line is not None else "unknown"))
        for *cells, line in inventory_rows(report)
    )
    if not rows:
        return Section(title="Alerts by op", lines=("No op raised an alert in the warn_only runs.",))
    return Section(
        title="Alerts by op",
        lines=("From warn_only dry runs, which are an inventory and never evidence of repeatability.",),
        headers=tuple(header.replace("\n", " ") for header in INVENTORY_HEADERS),
        rows=rows,
    )


# ------------------------------------------------------------------------------------------- scripts, variations


def _script_sections(report: ScriptReport, folder: Path | None) -> Iterator[Section]:
    yield Section(
        title="Runs",
        headers=tuple(header.replace("\n", " ") for header in RUN_HEADERS),
        rows=tuple(tuple(cell.plain for cell in row) for row in run_rows(report)),
        lines=tuple(printable(note) for note in script_notes(report)),
    )
    yield from finding_sections(script_findings(report))
    if report.waivers:
        yield _waiver_section(report.waivers)
    figures = _drawn(script_figures(report, folder)) if folder is not None else ()
    if figures:
        yield Section(
            title="Run by run",
            lines=("All strict runs laid over each other, and how far each is from the first one.",),
            figures=figures,
        )


def _variation_sections(report: VariationReport) -> Iterator[Section]:
    varied = [case for case in report.cases if case.cells]
    if varied:
        yield Section(
            title="Matrix",
            headers=("variation", "expected", *(printable(case.subject) for case in varied)),
            rows=tuple(tuple(cell.plain for cell in row) for row in matrix_rows(report, varied)),
            lines=("Everything was held, then one condition at a time was changed.",),
        )
    for case in report.cases:
        lines = (case.reason, case.claim, *held_lines(case))
        yield Section(
            title=printable(f"{case.subject}: {case.verdict.value}"),
            lines=tuple(printable(line) for line in lines if line),
        )
    yield from finding_sections([finding for case in report.cases for finding in variation_findings(case)])


# ------------------------------------------------------------------------------------------- all


def finding_sections(found: Sequence[Finding]) -> Iterator[Section]:
    """A section that holds a part for each finding; none where there is none."""
    parts = tuple(
        Section(
            title=printable(finding.title),
            code=tuple(printable(line) for line in finding.lines),
            lines=(f"Next: {printable(finding.next_step)}",) if finding.next_step else (),
            kind=finding.level.value,
        )
        for finding in found
    )
    if parts:
        yield Section(title="Findings", parts=parts)


def _waiver_section(waivers: Sequence[Waiver]) -> Section:
    return Section(
        title="Waivers",
        lines=(f"A finding that is accepted is shown as {WAIVED}, never as PASS, until its day is over.",),
        headers=("workload", "device", "op", "until", "who", "reason"),
        rows=tuple(
            tuple(printable(cell) for cell in (one.workload, one.device, one.op, one.until, one.who, one.reason))
            for one in waivers
        ),
    )


def _common_sections(report: Report) -> Iterator[Section]:
    if report.scope is not None:
        yield Section(
            title="What this claims, and what it does not",
            parts=(
                Section(title="It claims", lines=tuple(map(printable, report.scope.claims))),
                Section(title="It does not claim", lines=tuple(map(printable, report.scope.does_not_claim))),
            ),
        )
    yield Section(
        title="How to verify",
        lines=(
            "The archive can be checked offline, against itself and against the key of whoever signed it; and the "
            "audit can be made again, with its bits compared with the archived ones.",
        ),
        code=(
            f"repro-audit verify {report.volatile.audit} --key PUBLIC",
            f"repro-audit reproduce {report.volatile.audit}",
        ),
    )
    yield _environment_section(report.environment)
    yield _settings_section(report)


def _environment_section(environment: Environment) -> Section:
    facts = flattened(msgspec.to_builtins(msgspec.structs.replace(environment, devices=())))
    for device in environment.devices:
        facts |= flattened({f"device {device.name}": {"description": device.description, **device.details}})
    return Section(title="Environment", folded=True, headers=("fact", "value"), rows=_rows(facts.items()))


def _settings_section(report: Report) -> Section:
    configuration: Configuration | None = report.configuration
    if configuration is not None:
        rows = tuple(
            (printable(key), printable(value), configuration.origins.get(key, ""))
            for key, value in configuration.values.items()
        )
        file = configuration.file or "none"
        return Section(
            title="Configuration",
            folded=True,
            headers=("key", "value", "from"),
            rows=rows,
            lines=(f"Configuration file: {printable(file)}",),
        )
    data = msgspec.to_builtins(report)
    facts = flattened(data.get("settings") or data.get("script") or {})
    return Section(title="Settings", folded=True, headers=("setting", "value"), rows=_rows(facts.items()))


def _rows(items: Iterable[tuple[str, str]]) -> tuple[tuple[str, ...], ...]:
    return tuple((printable(name), printable(value)) for name, value in items if value)
