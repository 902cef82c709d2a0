"""``repro-audit list``: the workloads that there are."""

from argparse import Namespace

from repro_audit.commands.terminal import console
from repro_audit.discovery import discover
from repro_audit.exit_codes import ExitCode
from repro_audit.report.listing import print_listing


def list_workloads(arguments: Namespace) -> int:
    """Prints the workloads with their summaries."""
    print_listing(discover(arguments.selection, arguments.workloads), console())
    return ExitCode.VERIFIED
