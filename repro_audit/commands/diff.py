"""``repro-audit diff``: two archives side by side."""

import gc
import sys
from argparse import Namespace
from pathlib import Path

import msgspec

from repro_audit.commands.terminal import console
from repro_audit.commands.verify import archive_folder
from repro_audit.difference import Archived, differences
from repro_audit.exit_codes import ExitCode
from repro_audit.report import evidence
from repro_audit.report.difference_document import difference_document
from repro_audit.report.sections import Document


def diff(arguments: Namespace) -> int:
    """Compares two archives; whether they are whole is for `verify` to say."""
    gc.disable()  # as for `show`
    found = differences(*(archived(path) for path in (arguments.first, arguments.second)))
    print_comparison(found, difference_document(found), arguments.format)
    return ExitCode.FINDING if any(case.differs for case in found.cases) else ExitCode.VERIFIED


def archived(path: Path) -> Archived:
    """The archive of that name.

    Raises:
        EvidenceError: There is none, or its evidence cannot be read.
    """
    folder = archive_folder(path)
    return Archived(report=evidence.load(folder), folder=folder)


def print_comparison(record: msgspec.Struct, document: Document, form: str) -> None:
    """Prints a comparison.

    Args:
        form: ``table``, ``json``, ``markdown`` or ``html``.
    """
    # Each is imported for itself, as for `report`.
    if form == "json":
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(record), indent=2).decode() + "\n")
    elif form == "markdown":
        from repro_audit.report.markdown import markdown_of

        sys.stdout.write(markdown_of(document))
    elif form == "html":
        from repro_audit.report.html import html_of

        sys.stdout.write(html_of(document))
    else:
        from repro_audit.report.terminal_document import print_document

        print_document(document, console())
