"""Keeps a report, and prints it in the form that was asked for."""

import os
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

from repro_audit.checksums import seal
from repro_audit.commands.reports import append_step_summary, write_reports
from repro_audit.commands.terminal import console
from repro_audit.errors import EvidenceError
from repro_audit.finish import ReportType, finish
from repro_audit.pipes import abandon_stdout
from repro_audit.records import Environment
from repro_audit.report import evidence
from repro_audit.report.annotations import annotations
from repro_audit.report.evidence import Report
from repro_audit.report.inventory import print_inventory
from repro_audit.report.plain import printable
from repro_audit.report.script_table import print_report as print_script_table
from repro_audit.report.table import print_report as print_table
from repro_audit.report.variation_matrix import print_matrix
from repro_audit.script_records import ScriptReport
from repro_audit.variation_records import VariationReport
from repro_audit.verdict import is_inventory


def print_report(report: Report, arguments: Namespace) -> None:
    """Prints a report in the form that the command line asks for."""
    if arguments.format != "table":
        print_data(report, arguments.format)
    elif getattr(arguments, "quiet", False):
        print(printable(report.summary.statement))
    elif isinstance(report, ScriptReport):
        print_script_table(report, console())
    elif isinstance(report, VariationReport):
        print_matrix(report, console())
    elif is_inventory(report.settings):
        print_inventory(report, console())
    else:
        print_table(report, console())


def print_report_and_place(report: Report, arguments: Namespace, place: str) -> None:
    """Prints the report, then where it lies: on stdout unless that is for programs.

    A reader who leaves early does not change what the audit found, nor its exit code.
    """
    write_reports(report, arguments)
    append_step_summary(report, os.environ)
    try:
        print_report(report, arguments)
        if arguments.format == "table" and os.environ.get("GITHUB_ACTIONS") == "true":
            for line in annotations(report):
                print(line)
        if place:
            print(place, file=sys.stdout if arguments.format == "table" else sys.stderr)
        sys.stdout.flush()
    except BrokenPipeError:
        abandon_stdout()


def conclude(found: ReportType, folder: Path, arguments: Namespace) -> int:
    """Makes evidence of what an audit found, keeps it, signs it where that is asked for, and prints the report.

    Returns:
        The exit code.
    """
    report = finish(found)
    path = keep_evidence(report, folder)
    sign_if_asked(report, path.parent, arguments)
    print_report_and_place(report, arguments, f"evidence: {path}")
    return report.summary.exit_code


def keep_evidence(report: Report, folder: Path) -> Path:
    """Writes the evidence where it belongs, or, if the disk is full by now, anywhere rather than nowhere."""
    try:
        saved = evidence.save(report, folder)
    except EvidenceError as error:
        refuge = Path(tempfile.mkdtemp(prefix="repro-audit-evidence-"))
        saved = evidence.save(report, refuge)
        print(f"repro-audit: {error}\nThe evidence was written to {saved} instead.", file=sys.stderr)
        return saved
    try:
        seal(folder)
    except (OSError, EvidenceError) as error:
        print(
            f"repro-audit: the archive {folder} cannot be sealed: {getattr(error, 'strerror', None) or error}. Its "
            "evidence is whole, but `verify` will call it unfinished.",
            file=sys.stderr,
        )
    return saved


def sign_if_asked(report: Report, folder: Path, arguments: Namespace) -> None:
    """Signs a new archive with the key that the command line names.

    Raises:
        UsageError: The key cannot be used; the archive is whole without a signature.
    """
    if arguments.sign is not None:
        from repro_audit.attestation import Responsible
        from repro_audit.commands.verify import sign_archive

        sign_archive(folder, arguments.sign, Responsible(name=arguments.responsible, role=arguments.role), report)


def print_data(record: Report | Environment, form: str) -> None:
    """Prints a record for programs."""
    if form == "yaml":
        print(evidence.to_yaml(record), end="")
    else:
        print(evidence.to_json(record), end="")
