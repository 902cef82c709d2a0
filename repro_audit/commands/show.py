"""``repro-audit show``: redraws the report of an archived audit."""

from argparse import Namespace

from repro_audit.commands.output import print_report
from repro_audit.exit_codes import ExitCode
from repro_audit.report import evidence


def show(arguments: Namespace) -> int:
    """Reads the evidence and prints its report."""
    print_report(evidence.load(arguments.path), arguments)
    return ExitCode.VERIFIED
