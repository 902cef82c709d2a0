"""Prints a report in the form that the command line asks for."""

from argparse import Namespace

from repro_audit.commands.terminal import console
from repro_audit.records import Environment
from repro_audit.report import evidence
from repro_audit.report.evidence import Report
from repro_audit.report.plain import printable
from repro_audit.script_records import ScriptReport
from repro_audit.variation_records import VariationReport
from repro_audit.verdict import is_inventory


def print_report(report: Report, arguments: Namespace) -> None:
    """Prints a report: as a table, in one line, or for programs."""
    # Each printer is imported for itself: whoever looks at one kind does not wait for the others.
    if arguments.format != "table":
        print_data(report, arguments.format)
    elif getattr(arguments, "quiet", False):
        print(printable(report.summary.statement))
    elif isinstance(report, ScriptReport):
        from repro_audit.report.script_table import print_report as print_script_table

        print_script_table(report, console())
    elif isinstance(report, VariationReport):
        from repro_audit.report.variation_matrix import print_matrix

        print_matrix(report, console())
    elif is_inventory(report.settings):
        from repro_audit.report.inventory import print_inventory

        print_inventory(report, console())
    else:
        from repro_audit.report.table import print_report as print_table

        print_table(report, console())


def print_data(record: Report | Environment, form: str) -> None:
    """Prints a record for programs."""
    if form == "yaml":
        print(evidence.to_yaml(record), end="")
    else:
        print(evidence.to_json(record), end="")
