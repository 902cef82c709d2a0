"""``repro-audit show``: redraws the report of an archived audit."""

import gc
from argparse import Namespace

from repro_audit.commands.printing import print_report
from repro_audit.exit_codes import ExitCode
from repro_audit.report import evidence


def show(arguments: Namespace) -> int:
    """Reads the evidence and prints its report."""
    gc.disable()  # a large report is tens of thousands of objects that all live to the end, and no garbage
    report = evidence.load(arguments.path)
    print_report(report, arguments)
    return ExitCode.VERIFIED
