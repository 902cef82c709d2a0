"""Real audits for tests: real interpreters, real forks, through the same door as the command line."""

from pathlib import Path

from repro_audit import cli
from repro_audit.records import AuditReport
from repro_audit.report import evidence


def audit_folder(folder: Path, names: list[str], output: Path, *, timeout: float = 60.0) -> AuditReport:
    """Audits workloads of a folder and returns the evidence as it was written."""
    arguments = ["run", *names, "--workloads", str(folder), "--device", "cpu", "--quiet"]
    cli.main([*arguments, "--timeout", str(timeout), "--output", str(output)])
    (archive,) = output.iterdir()
    return evidence.load(archive)
