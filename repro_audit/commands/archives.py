"""``repro-audit archive list|show|prune``: the archives of a folder."""

import gc
import json
from argparse import Namespace

from rich import box
from rich.table import Table

from repro_audit.archive_index import Entry, Filter, entry_of, index, remove, surplus
from repro_audit.checksums import file_digests
from repro_audit.commands.terminal import console
from repro_audit.commands.verify import archive_folder
from repro_audit.exit_codes import ExitCode
from repro_audit.report.plain import printable, text

DIGEST_DIGITS = 12
"""Of a digest in a table; the evidence has all of it."""


def list_archives(arguments: Namespace) -> int:
    """Lists archives, the oldest first."""
    gc.disable()  # as for `show`
    wanted = Filter(
        verdict=arguments.verdict,
        workload=arguments.workload,
        device=arguments.device,
        since=arguments.since,
        until=arguments.until,
    )
    entries = index(arguments.output, wanted)
    if arguments.format == "json":
        print(json.dumps([_data(entry) for entry in entries], indent=2))
        return ExitCode.VERIFIED
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for header in ("archive", "kind", "result", "digest of result"):
        table.add_column(header, overflow="fold")
    for entry in entries:
        table.add_row(text(entry.folder.name), text(entry.kind), text(_result(entry)), text(_digest(entry)))
    console().print(table)
    print(f"{len(entries)} {'archive' if len(entries) == 1 else 'archives'} in {printable(str(arguments.output))}")
    return ExitCode.VERIFIED


def _result(entry: Entry) -> str:
    if entry.report is None:
        return entry.trouble
    statement = entry.report.summary.statement
    return f"{statement} ({entry.trouble})" if entry.trouble else statement


def _digest(entry: Entry) -> str:
    if entry.report is None:
        return ""
    return entry.report.result_digest.removeprefix("sha256:")[:DIGEST_DIGITS]


def _data(entry: Entry) -> dict[str, object]:
    return {
        "archive": str(entry.folder),
        "whole": entry.is_whole,
        "trouble": entry.trouble,
        "kind": entry.kind,
        "exit_code": entry.report.summary.exit_code if entry.report else None,
        "statement": entry.report.summary.statement if entry.report else None,
        "result_digest": entry.report.result_digest if entry.report else None,
        "cases": [
            {"workload": workload, "device": device, "verdict": verdict} for workload, device, verdict in entry.rows()
        ],
    }


def show_archive(arguments: Namespace) -> int:
    """Tells what an archive holds, file by file."""
    folder = archive_folder(arguments.path)
    entry = entry_of(folder)
    print(printable(f"{folder}: {_result(entry)}"))
    if entry.report is not None:
        volatile = entry.report.volatile
        print(printable(f"made {volatile.started} to {volatile.finished} on {volatile.host}, as {volatile.audit}"))
        print(printable(f"digest of the result: {entry.report.result_digest or 'none: evidence of schema 1'}"))
    for name, digest in file_digests(folder).items():
        print(printable(f"{digest}  {(folder / name).stat().st_size:>10}  {name}"))
    return ExitCode.VERIFIED if entry.is_whole else ExitCode.INCOMPLETE


def prune(arguments: Namespace) -> int:
    """Removes all whole archives but the newest."""
    gone = surplus(arguments.output, arguments.keep)
    for entry in gone:
        if not arguments.dry_run:
            remove(entry)
        print(printable(f"{'would remove' if arguments.dry_run else 'removed'} {entry.folder}"))
    print(f"{len(gone)} archives {'would be ' if arguments.dry_run else ''}removed, at most {arguments.keep} kept")
    return ExitCode.VERIFIED
