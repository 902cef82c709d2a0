"""The index of a folder of archives: derived from the evidence each time, never kept."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from repro_audit.checksums import FILE_NAME as SUMS
from repro_audit.errors import EvidenceError, UsageError
from repro_audit.records import AuditReport
from repro_audit.report import evidence
from repro_audit.report.evidence import Report
from repro_audit.script_records import ScriptReport
from repro_audit.script_verdict import shown_script_verdict
from repro_audit.variation_records import VariationReport
from repro_audit.verdict import is_inventory, shown_verdict
from repro_audit.waivers import SCRIPT_DEVICE

ARCHIVE_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d{6}Z-[0-9a-f]{6}")
"""As `Archive.create` names folders: nothing else is ever listed or removed."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An archive in the index."""

    folder: Path
    report: Report | None
    """None where the evidence is not there, or cannot be read."""
    trouble: str
    """Why it is no whole archive; empty where it is."""

    @property
    def is_whole(self) -> bool:
        """Whether it has readable evidence and was sealed; `verify` tells whether that is still what was written."""
        return not self.trouble

    @property
    def kind(self) -> str:
        """What was done: ``run``, ``inventory``, ``script`` or ``vary``."""
        match self.report:
            case AuditReport() as report:
                return "inventory" if is_inventory(report.settings) else "run"
            case ScriptReport():
                return "script"
            case VariationReport():
                return "vary"
            case None:
                return ""

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Workload, or script, device and shown verdict of each case."""
        match self.report:
            case AuditReport() as report:
                for result in report.cases:
                    yield result.case.workload, result.case.device, shown_verdict(result)
            case ScriptReport() as report:
                yield report.settings.script.name, SCRIPT_DEVICE, shown_script_verdict(report)
            case VariationReport() as report:
                for case in report.cases:
                    workload, _, device = case.subject.rpartition("/")
                    of_script = report.script is not None
                    yield (
                        case.subject if of_script else workload,
                        SCRIPT_DEVICE if of_script else device,
                        case.verdict.value,
                    )
            case None:
                return


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Which archives are wanted; what is None or empty asks for nothing."""

    verdict: str | None = None
    workload: str | None = None
    """Glob."""
    device: str | None = None
    """Glob."""
    since: str | None = None
    """A day, as YYYY-MM-DD, UTC."""
    until: str | None = None

    def passes(self, entry: Entry) -> bool:
        """Whether one case of the archive is all that is asked for, on a day that is."""
        day = entry.folder.name[:10]
        if (self.since and day < self.since) or (self.until and day > self.until):
            return False
        wanted = [self.workload, self.device, self.verdict]
        if not any(wanted):
            return True
        return any(
            all(glob is None or fnmatchcase(value, glob) for value, glob in zip(row, wanted, strict=True))
            for row in entry.rows()
        )


def index(reports: Path, wanted: Filter | None = None) -> list[Entry]:
    """The archives of a folder, the oldest first.

    Raises:
        UsageError: It is no folder that can be read.
    """
    try:
        folders = sorted(
            path
            for path in reports.iterdir()
            if ARCHIVE_NAME.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
        )
    except OSError as error:
        raise UsageError(
            f"cannot list {reports}: {error.strerror or error}; name the folder of archives with --reports"
        ) from error
    entries = (entry_of(folder) for folder in folders)
    return [entry for entry in entries if wanted is None or wanted.passes(entry)]


def entry_of(folder: Path) -> Entry:
    """One archive's entry."""
    if not (folder / evidence.FILE_NAME).exists():
        return Entry(folder=folder, report=None, trouble="unfinished: it has no evidence")
    try:
        report = evidence.load(folder)
    except EvidenceError as error:
        return Entry(folder=folder, report=None, trouble=str(error))
    sealed = (folder / SUMS).is_file()
    return Entry(folder=folder, report=report, trouble="" if sealed else f"unfinished: it has no {SUMS}")


def surplus(reports: Path, keep: int) -> list[Entry]:
    """The whole archives beyond the newest `keep`, the oldest first; unfinished ones may still be at work."""
    whole = [entry for entry in index(reports) if entry.is_whole]
    return whole[: max(len(whole) - keep, 0)]


def remove(entry: Entry) -> None:
    """Removes an archive; cut off, it leaves one that is visibly not whole.

    Raises:
        UsageError: It cannot be removed.
    """
    try:
        (entry.folder / SUMS).unlink(missing_ok=True)
        shutil.rmtree(entry.folder)
    except OSError as error:
        raise UsageError(f"cannot remove {entry.folder}: {error.strerror or error}; check its permissions") from error
