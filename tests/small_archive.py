"""A whole archive of a small audit, made in a moment: the runs are the fake launcher's."""

from datetime import UTC, datetime
from pathlib import Path

from repro_audit.archive import Archive
from repro_audit.audit import audit
from repro_audit.commands.output import keep_evidence
from repro_audit.finish import finish
from tests.fakes import FakeLauncher, RecordingProgress, source
from tests.test_audit import CANARIES, settings

NAMES = ("one", "two")


def small_archive(output: Path, launcher: FakeLauncher | None = None, **fields: object) -> Path:
    """An archive in a folder of archives.

    Args:
        fields: Of the settings.
    """
    archive = Archive.create(output, datetime.now(UTC))
    sources = [source(name) for name in NAMES]
    report = audit(settings(**fields), sources, CANARIES, launcher or FakeLauncher(), archive, RecordingProgress())
    keep_evidence(finish(report), archive.folder)
    return archive.folder
