"""The folder that keeps an audit: bounded logs as the runs end, and the evidence last."""

import re
import secrets
from datetime import UTC, datetime
from pathlib import Path

from repro_audit.errors import UsageError
from repro_audit.records import Case


class Archive:
    """A fresh folder ``<output>/<UTC time>-<short id>``; without ``evidence.yaml`` it is visibly unfinished."""

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

    def keep_log(self, case: Case, run: str, stream: str, content: bytes) -> None:
        """Keeps what a run wrote to a stream; nothing is kept of an empty one.

        Raises:
            OSError: The disk is full, or the folder is gone.
        """
        if content:
            folder = self.folder / "logs" / f"{file_name(case.workload)}.{file_name(case.device)}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{run}.{stream}.txt").write_bytes(content)


def file_name(name: str) -> str:
    """A name as a file name: whatever is not a letter, digit, dot, dash or underscore becomes an underscore."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)
