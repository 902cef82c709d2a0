"""Findings as workflow commands of GitHub Actions, which shows them at their source lines.

Source: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

import os
from collections.abc import Iterator
from pathlib import Path

from repro_audit.records import AuditReport, Breach, CaseResult, Location, Refused, SourceLine, Verdict
from repro_audit.report.evidence import Report
from repro_audit.report.plain import printable
from repro_audit.script_records import ScriptReport
from repro_audit.waivers import is_finding


def annotations(report: Report) -> Iterator[str]:
    """One ``::error`` for each finding whose line is known and still reads as it did; nothing for one without."""
    match report:
        case AuditReport():
            for result in report.cases:
                if is_finding(result) and not result.waivers:
                    title = f"{result.case.workload} on {result.case.device}: {result.verdict.value}"
                    yield from _annotation(_case_line(result), title, result.reason)
        case ScriptReport() if report.verdict in (Verdict.FAIL, Verdict.REFUSED) and not report.waived:
            lines = [one.outcome.alert.location for one in report.recordings if isinstance(one.outcome, Refused)]
            line = _first(*(breach.location for breach in report.breaches), _located(report.location), *lines)
            yield from _annotation(line, f"{report.settings.script.name}: {report.verdict.value}", report.reason)
        case _:
            return


def _case_line(result: CaseResult) -> SourceLine | None:
    breaches: list[Breach] = [breach for run in result.runs for breach in run.breaches]
    refusals = [run.outcome.alert for run in result.runs if isinstance(run.outcome, Refused)]
    return _first(
        *(breach.location for breach in breaches),
        _located(result.location),
        *(alert.forward_location or alert.location for alert in refusals),
    )


def _located(location: Location | None) -> SourceLine | None:
    return location.line if location is not None and not location.agreed else None


def _first(*lines: SourceLine | None) -> SourceLine | None:
    return next((line for line in lines if line is not None), None)


def _annotation(line: SourceLine | None, title: str, message: str) -> Iterator[str]:
    if line is None or not _is_true(line):
        return
    path = os.path.relpath(line.path)
    yield f"::error file={_property(path)},line={line.line},title={_property(title)}::{_escaped(message)}"


def _is_true(line: SourceLine) -> bool:
    """Whether the line lies below the current folder, where the checkout is, and is what was seen."""
    path = Path(line.path)
    try:
        if not path.resolve().is_relative_to(Path.cwd()):
            return False
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    return 0 < line.line <= len(lines) and lines[line.line - 1].strip() == line.text


def _escaped(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
