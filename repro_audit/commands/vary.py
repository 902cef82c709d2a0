"""``repro-audit vary``: change one condition at a time on purpose, and see which of them the bits depend on."""

import os
from argparse import Namespace
from contextlib import ExitStack, suppress
from datetime import UTC, datetime

from repro_audit.archive import Archive
from repro_audit.commands.output import keep_evidence, print_report_and_place
from repro_audit.discovery import discover
from repro_audit.interpreter_pool import InterpreterPool
from repro_audit.interrupts import uninterrupted
from repro_audit.records import Isolation, Mode, Settings
from repro_audit.report.progress import make_progress
from repro_audit.settings import require_current_folder, resolve_cublas_workspace, worker_environment
from repro_audit.variation_choice import chosen_variations
from repro_audit.vary_workloads import vary_workloads


def vary(arguments: Namespace) -> int:
    """Varies, writes evidence, prints the matrix."""
    require_current_folder()
    cublas_workspace = resolve_cublas_workspace(arguments.cublas_workspace, os.environ)
    chosen = chosen_variations(arguments.vary)
    sources = discover(arguments.selection, arguments.workloads)
    settings = Settings(
        modes=(Mode.STRICT,),
        selection=tuple(arguments.selection),
        workload_paths=tuple(str(path) for path in arguments.workloads),
        devices=tuple(dict.fromkeys(arguments.device)),
        required_devices=(),
        steps=arguments.steps,
        repeats=arguments.repeats,
        seed=arguments.seed,
        timeout_ms=round(arguments.timeout * 1000),
        isolation=Isolation(arguments.isolation),
        cublas_workspace=cublas_workspace,
    )
    archive = Archive.create(arguments.output, datetime.now(UTC))
    with ExitStack() as shield:
        try:
            variables = worker_environment(os.environ, cublas_workspace)
            progress = make_progress(quiet=arguments.quiet)
            with InterpreterPool(settings.isolation, variables) as pool:
                report = vary_workloads(settings, sources, chosen, pool, archive, progress)
                shield.enter_context(uninterrupted())
        except BaseException:
            with suppress(OSError):
                archive.folder.rmdir()  # an archive in which nothing is kept is of no use to anybody
            raise
        path = keep_evidence(report, archive.folder)
        print_report_and_place(report, arguments, f"evidence: {path}")
    return report.summary.exit_code
