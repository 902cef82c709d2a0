"""Keeps what an audit found, and publishes it as the command line asks for."""

import os
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

from repro_audit.checksums import seal
from repro_audit.commands.printing import print_report
from repro_audit.commands.reports import append_step_summary, require_writable, takes_stdout, write_reports
from repro_audit.errors import EvidenceError, UsageError
from repro_audit.exit_codes import ExitCode
from repro_audit.finish import ReportType, finish
from repro_audit.pipes import abandon_stdout
from repro_audit.report import evidence
from repro_audit.report.annotations import annotations
from repro_audit.report.evidence import Report


def require_outputs(arguments: Namespace) -> None:
    """Makes sure, before anything runs, that what is asked for beside the evidence can be had.

    Adds `signer` to the arguments: who signs, None where nobody does.

    Raises:
        UsageError: A report cannot be written where it is to go, or the signing key cannot be used.
    """
    require_writable(arguments)
    arguments.signer = None
    if getattr(arguments, "sign", None) is not None:
        from repro_audit.signing import load_signer

        arguments.signer = load_signer(arguments.sign)


def conclude(found: ReportType, folder: Path, arguments: Namespace) -> int:
    """Makes evidence of what an audit found, keeps it, signs it where that is asked for, and prints the report.

    Returns:
        The exit code.
    """
    report = finish(found, arguments.configuration, arguments.waivers)
    path = keep_evidence(report, folder)
    return print_and_publish(report, arguments, f"evidence: {path}", path.parent)


def print_and_publish(report: Report, arguments: Namespace, place: str, folder: Path | None = None) -> int:
    """Prints the report and where it lies, then signs it and writes the reports that are asked for.

    A reader who leaves early does not change what the audit found, nor its exit code.

    Args:
        place: A line; on stdout unless that is for programs, or for a report. Empty where there is nothing to say.
        folder: That of the archive; None where there is none.

    Returns:
        The exit code: that of the report, or of bad usage where something could not be written and there is no finding.
    """
    is_free = not takes_stdout(arguments)
    try:
        if is_free:
            print_report(report, arguments)
        if is_free and arguments.format == "table" and os.environ.get("GITHUB_ACTIONS") == "true":
            for line in annotations(report):
                print(line)
        if place:
            print(place, file=sys.stdout if is_free and arguments.format == "table" else sys.stderr)
        sys.stdout.flush()
    except BrokenPipeError:
        abandon_stdout()
    append_step_summary(report, os.environ)
    code = report.summary.exit_code
    try:
        if folder is not None and arguments.signer is not None:
            from repro_audit.attestation import Responsible
            from repro_audit.commands.verify import sign_archive

            sign_archive(folder, arguments.signer, Responsible(name=arguments.responsible, role=arguments.role), report)
        write_reports(report, arguments, folder)
    except (UsageError, EvidenceError) as error:
        print(f"repro-audit: {error}", file=sys.stderr)
        return code if code == ExitCode.FINDING else ExitCode.USAGE
    return code


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
