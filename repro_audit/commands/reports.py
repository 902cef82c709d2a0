"""``repro-audit report``, and the options that write reports: HTML, JUnit XML, Markdown and JSON from one evidence."""

import gc
import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from repro_audit.errors import UsageError
from repro_audit.exit_codes import ExitCode
from repro_audit.report import evidence
from repro_audit.report.evidence import Report
from repro_audit.whole_files import write_whole

FORMATS = ("html", "junit", "markdown", "json")

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Names the file that GitHub Actions shows of a step, as Markdown."""

STEP_SUMMARY_BYTES = 1 << 20
"""GitHub shows no larger one."""


def report(arguments: Namespace) -> int:
    """Draws reports from archived evidence."""
    gc.disable()  # as for `show`
    if not any(getattr(arguments, one) for one in FORMATS):
        raise UsageError("name a report to write: --html FILE, --junit FILE, --markdown FILE or --json FILE")
    require_writable(arguments)
    path: Path = arguments.path
    folder = path if path.is_dir() else path.parent
    for written in write_reports(evidence.load(path), arguments, folder):
        print(f"written: {written}")
    return ExitCode.VERIFIED


def rendered(report: Report, form: str, folder: Path | None = None) -> str:
    """A report as text in one of the `FORMATS`.

    Args:
        folder: The archive, whose recordings are drawn where the report is on a script.
    """
    # Each is imported for itself: whoever asks for one does not wait for the others.
    if form == "junit":
        from repro_audit.report.junit import junit_of

        return junit_of(report)
    if form == "json":
        return evidence.to_json(report)
    from repro_audit.report.document import document_of

    if form == "html":
        from repro_audit.report.html import html_of

        return html_of(document_of(report, folder))
    from repro_audit.report.markdown import markdown_of

    return markdown_of(document_of(report))


def require_writable(arguments: Namespace) -> None:
    """Makes sure, before an audit, that the reports it is to write have a place.

    Raises:
        UsageError: One has none, or two are to go to stdout.
    """
    if sum(_is_stdout(arguments, form) for form in FORMATS) > 1:
        raise UsageError("only one report can go to stdout; name files for the others")
    for form in FORMATS:
        path: Path | None = getattr(arguments, form, None)
        if path is None or str(path) == "-":
            continue
        if path.is_dir():
            raise UsageError(f"--{form} {path} is a folder; name a file in it")
        there = next((folder for folder in path.absolute().parents if folder.exists()), None)
        if there is None or not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            raise UsageError(f"cannot write --{form} {path}: {there} is no folder that can be written; name another")


def write_reports(report: Report, arguments: Namespace, folder: Path | None) -> list[Path]:
    """Writes those that the command line asks for; ``-`` is stdout.

    Args:
        folder: The archive; None where there is none.

    Raises:
        UsageError: One cannot be written; the evidence is.
    """
    paths: list[Path] = []
    for form in FORMATS:
        path: Path | None = getattr(arguments, form, None)
        if path is None:
            continue
        text = rendered(report, form, folder)
        if str(path) == "-":
            sys.stdout.write(text)
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text.encode("utf-8", "backslashreplace"))
        except OSError as error:
            raise UsageError(
                f"cannot write --{form} {path}: {error.strerror or error}; the evidence is whole, so name another "
                "place with: repro-audit report"
            ) from error
        paths.append(path)
    return paths


def takes_stdout(arguments: Namespace) -> bool:
    """Whether a report goes to stdout, where nothing else may then stand."""
    return any(_is_stdout(arguments, form) for form in FORMATS)


def _is_stdout(arguments: Namespace, form: str) -> bool:
    return str(getattr(arguments, form, None)) == "-"


def append_step_summary(report: Report, environ: Mapping[str, str]) -> None:
    """Appends the report as Markdown to the step summary of GitHub Actions, where there is one.

    What cannot be written there costs no audit: the line on stderr says so.
    """
    name = environ.get(STEP_SUMMARY)
    if not name:
        return
    from repro_audit.report.document import document_of
    from repro_audit.report.markdown import MAXIMUM_BYTES, markdown_of

    path = Path(name)
    try:
        room = STEP_SUMMARY_BYTES - (path.stat().st_size if path.exists() else 0)
        if room < 4096:
            raise OSError("it is full")
        text = markdown_of(document_of(report), min(MAXIMUM_BYTES, room - 1024))
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        print(f"repro-audit: cannot append to the step summary {path}: {error.strerror or error}", file=sys.stderr)
