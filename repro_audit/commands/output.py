"""Prints a report or a record in the form that was asked for."""

from argparse import Namespace

import msgspec

from repro_audit.commands.terminal import console
from repro_audit.records import AuditReport, Environment
from repro_audit.report import evidence
from repro_audit.report.inventory import print_inventory
from repro_audit.report.plain import printable
from repro_audit.report.script_table import print_report as print_script_table
from repro_audit.report.table import print_report as print_table
from repro_audit.script_records import ScriptReport
from repro_audit.verdict import is_inventory


def print_report(report: AuditReport, arguments: Namespace) -> None:
    """Prints a report in the form that the command line asks for."""
    if arguments.format != "table":
        print_data(report, arguments.format)
    elif getattr(arguments, "quiet", False):
        print(printable(report.summary.statement))
    elif is_inventory(report.settings):
        print_inventory(report, console())
    else:
        print_table(report, console())


def print_script_report(report: ScriptReport, arguments: Namespace) -> None:
    """The same for the report on a script."""
    if arguments.format != "table":
        print_data(report, arguments.format)
    elif getattr(arguments, "quiet", False):
        print(printable(report.summary.statement))
    else:
        print_script_table(report, console())


def print_data(record: AuditReport | ScriptReport | Environment, form: str) -> None:
    """Prints a record for programs."""
    if form == "yaml":
        print(evidence.to_yaml(record), end="")
    else:
        print(msgspec.json.format(msgspec.json.encode(record), indent=2).decode())
