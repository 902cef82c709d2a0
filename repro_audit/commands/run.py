"""``repro-audit run`` and ``inventory``: audit, write what was found, print it."""

import os
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from repro_audit.archive import Archive
from repro_audit.audit import audit
from repro_audit.commands.output import conclude, keep_evidence, print_and_publish, require_outputs
from repro_audit.discovery import canary_folder, discover, discover_folder
from repro_audit.finish import finish
from repro_audit.interpreter_pool import InterpreterPool
from repro_audit.interpreters import interpreter_pair
from repro_audit.interrupts import uninterrupted
from repro_audit.launch import ProcessLauncher
from repro_audit.plan import ARM_MODES
from repro_audit.records import AuditReport, CublasWorkspace, Isolation, Mode, Settings, WorkloadSource
from repro_audit.report.progress import Progress, make_progress
from repro_audit.settings import require_current_folder, resolve_cublas_workspace, worker_environment

QUICK = tuple(mode for mode in Mode if mode not in ARM_MODES)
"""The modes that the verdict rests on."""


def run(arguments: Namespace) -> int:
    """Audits, writes evidence, prints the report."""
    with ExitStack() as shield:
        report, archive = _audit(arguments, arguments.output, QUICK if arguments.quick else tuple(Mode), shield)
        return conclude(report, archive.folder, arguments)


def inventory(arguments: Namespace) -> int:
    """Makes the warn_only runs alone and prints their alerts."""
    with tempfile.TemporaryDirectory(prefix="repro-audit-inventory-") as scratch, ExitStack() as shield:
        report, archive = _audit(arguments, arguments.output or Path(scratch), (Mode.WARN_ONLY,), shield)
        report = finish(report, arguments.configuration)
        path = keep_evidence(report, archive.folder) if arguments.output else None
        return print_and_publish(report, arguments, f"archived: {path}" if path else "", path.parent if path else None)


def _audit(
    arguments: Namespace, output: Path, modes: tuple[Mode, ...], shield: ExitStack
) -> tuple[AuditReport, Archive]:
    """Audits as the command line says; see `audit_as` for the shield."""
    require_current_folder()
    require_outputs(arguments)
    cublas_workspace = resolve_cublas_workspace(arguments.cublas_workspace, os.environ)
    sources = discover(arguments.selection, arguments.workloads)
    settings = workload_settings(arguments, cublas_workspace, modes)
    return audit_as(settings, sources, output, make_progress(quiet=arguments.quiet), shield)


def audit_as(
    settings: Settings, sources: Sequence[WorkloadSource], output: Path, progress: Progress, shield: ExitStack
) -> tuple[AuditReport, Archive]:
    """Audits as the settings say.

    Args:
        output: The folder of the new archive.
        shield: Closed when the report is written; a second Ctrl-C must not cost what the first one left.
    """
    canaries = {source.name: source for source in discover_folder(canary_folder(), bundled=True)}
    variables = worker_environment(os.environ, settings.cublas_workspace)
    with (
        Archive.fresh(output) as archive,
        interpreter_pair(settings.isolation, variables) as interpreters,
        InterpreterPool(settings.isolation, variables) as pool,
    ):
        launcher = ProcessLauncher(interpreters, settings.timeout_ms / 1000, pool)
        report = audit(settings, sources, canaries, launcher, archive, progress)
        shield.enter_context(uninterrupted())
    return report, archive


def workload_settings(arguments: Namespace, cublas_workspace: CublasWorkspace, modes: tuple[Mode, ...]) -> Settings:
    """What the command line asks for of workloads, after defaults."""
    return Settings(
        modes=modes,
        selection=tuple(arguments.selection),
        workload_paths=tuple(str(path) for path in arguments.workloads),
        devices=tuple(dict.fromkeys(arguments.device)),
        required_devices=tuple(dict.fromkeys(arguments.require_device)),
        steps=arguments.steps,
        repeats=arguments.repeats,
        seed=arguments.seed,
        timeout_ms=round(arguments.timeout * 1000),
        isolation=Isolation(arguments.isolation),
        cublas_workspace=cublas_workspace,
        budget_ms=round(arguments.budget * 1000),
    )
