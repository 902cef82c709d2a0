"""Real audits for tests: real interpreters, real forks, through the same door as the command line."""

from pathlib import Path

import pytest

from repro_audit import cli
from repro_audit.records import AuditReport
from repro_audit.report import evidence


def audit_folder(folder: Path, names: list[str], output: Path, *, timeout: float = 60.0) -> AuditReport:
    """Audits workloads of a folder and returns the evidence as it was written."""
    arguments = ["run", *names, "--workloads", str(folder), "--device", "cpu", "--quiet"]
    with pytest.MonkeyPatch.context() as environment:
        # Of those who run the tests: a fixed hash seed hides what the tests look for, an odd workspace is an error.
        for name in ("PYTHONHASHSEED", "CUBLAS_WORKSPACE_CONFIG"):
            environment.delenv(name, raising=False)
        cli.main([*arguments, "--timeout", str(timeout), "--output", str(output)])
    (archive,) = output.iterdir()
    return evidence.load(archive)
