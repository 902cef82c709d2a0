"""The folder that keeps an audit: bounded logs as the runs end, and the evidence last."""

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from repro_audit.errors import UsageError
from repro_audit.interpreter import Ended
from repro_audit.records import Case, RunRecord, RunTask

RUNS = "runs"
"""The folder with the record of each run."""

RECORD_LOST = "its record could not be kept"
"""Begins the note of a run whose record is not in the archive."""


class Archive:
    """A fresh folder ``<output>/<UTC time>-<short id>``; without `SHA256SUMS` it is visibly unfinished."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def create(cls, output: Path, now: datetime) -> "Archive":
        """Makes the folder before anything runs, so that an unwritable place costs no audit.

        Raises:
            UsageError: It cannot be made.
        """
        folder = output / f"{now.astimezone(UTC):%Y-%m-%dT%H%M%SZ}-{secrets.token_hex(3)}"
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise UsageError(
                f"cannot make the archive folder {folder}: {error.strerror or error}. "
                "Name a folder that can be written with --output."
            ) from error
        return cls(folder)

    @classmethod
    @contextmanager
    def fresh(cls, output: Path) -> Iterator["Archive"]:
        """A new archive, as of now; gone again where an error leaves it empty: it would be of no use to anybody.

        Raises:
            UsageError: As for `create`.
        """
        archive = cls.create(output, datetime.now(UTC))
        try:
            yield archive
        except BaseException:
            with suppress(OSError):
                archive.folder.rmdir()
            raise

    def keep_log(self, case: Case, task: RunTask, stream: str, content: bytes) -> None:
        """Keeps what a run wrote to a stream; nothing is kept of an empty one.

        Raises:
            OSError: The disk is full, or the folder is gone.
        """
        if content:
            (self._case_folder("logs", case, task) / f"{task.run}.{stream}.txt").write_bytes(content)

    def _case_folder(self, kind: str, case: Case, task: RunTask) -> Path:
        # Its name ends in part of the workload's digest: two workloads whose names differ in a character that no file
        # name may hold, or a workload named like a canary, must not share it.
        short = task.source.sha256.removeprefix("sha256:")[:8]
        folder = self.folder / kind / f"{file_name(case.workload)}.{file_name(case.device)}.{short}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def keep_run(self, record: RunRecord, task: RunTask) -> str:
        """Keeps the record of a run as soon as it ended: what a kill finds done is not lost.

        Returns:
            Why it could not be kept; empty where it could.
        """
        try:
            folder = self._case_folder(RUNS, record.case, task)
            (folder / f"{file_name(task.run)}.json").write_bytes(msgspec.json.encode(record) + b"\n")
        except OSError as error:
            return f"{RECORD_LOST}: {error.strerror or error}"
        return ""

    def keep_logs(self, case: Case, task: RunTask, ended: Ended) -> str:
        """Keeps what a run wrote to both its streams: an audit must not be lost over that.

        Returns:
            Why it could not be kept; empty where it could.
        """
        try:
            self.keep_log(case, task, "stdout", ended.stdout)
            self.keep_log(case, task, "stderr", ended.stderr)
        except OSError as error:
            return f"what the run printed could not be kept: {error.strerror or error}"
        return ""

    def keep_output(self, run: str, stream: str, content: bytes) -> None:
        """Keeps what a run of a script wrote to a stream; nothing is kept of an empty one.

        Raises:
            OSError: The disk is full, or the folder is gone.
        """
        if content:
            folder = self.folder / "logs"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{file_name(run)}.{stream}.txt").write_bytes(content)


def file_name(name: str) -> str:
    """A name as a file name: whatever is not a letter, digit, dot, dash or underscore becomes an underscore."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)
