"""``repro-audit show``: redraws the report of an archived audit."""

import gc
from argparse import Namespace

from repro_audit.commands.output import print_report, print_script_report
from repro_audit.exit_codes import ExitCode
from repro_audit.report import evidence
from repro_audit.script_records import ScriptReport


def show(arguments: Namespace) -> int:
    """Reads the evidence and prints its report."""
    gc.disable()  # a large report is tens of thousands of objects that all live to the end, and no garbage
    report = evidence.load(arguments.path)
    if isinstance(report, ScriptReport):
        print_script_report(report, arguments)
    else:
        print_report(report, arguments)
    return ExitCode.VERIFIED
