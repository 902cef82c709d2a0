"""``repro-audit vary``: change one condition at a time on purpose, and see which of them the bits depend on."""

import os
from argparse import Namespace
from contextlib import ExitStack

from repro_audit.archive import Archive
from repro_audit.commands.output import conclude, require_outputs
from repro_audit.commands.run import workload_settings
from repro_audit.commands.script import asked_runs, target_of
from repro_audit.discovery import discover
from repro_audit.errors import UsageError
from repro_audit.interpreter_pool import InterpreterPool
from repro_audit.interrupts import uninterrupted
from repro_audit.records import CublasWorkspace, Isolation, Mode
from repro_audit.report.progress import Progress, make_progress
from repro_audit.settings import require_current_folder, resolve_cublas_workspace, worker_environment
from repro_audit.variation_choice import Chosen, chosen_variations
from repro_audit.variation_records import VariationReport
from repro_audit.vary_script import vary_script
from repro_audit.vary_workloads import vary_workloads


def vary(arguments: Namespace) -> int:
    """Varies, writes evidence, prints the matrix."""
    require_current_folder()
    require_outputs(arguments)
    cublas_workspace = resolve_cublas_workspace(arguments.cublas_workspace, os.environ)
    of_script = arguments.script is not None or arguments.run_module is not None
    if not of_script and arguments.given:
        raise UsageError("what stands after -- is given to a script; name it with --script, or a module with -m")
    chosen = chosen_variations(arguments.vary, of_script=of_script)
    variables = worker_environment(os.environ, cublas_workspace)
    make = _script_varied if of_script else _workloads_varied
    progress = make_progress(quiet=arguments.quiet)
    with ExitStack() as shield:
        pool = InterpreterPool(Isolation(arguments.isolation), variables)
        report, archive = make(arguments, cublas_workspace, chosen, pool, progress, shield)
        return conclude(report, archive.folder, arguments)


def _workloads_varied(
    arguments: Namespace,
    cublas_workspace: CublasWorkspace,
    chosen: Chosen,
    pool: InterpreterPool,
    progress: Progress,
    shield: ExitStack,
) -> tuple[VariationReport, Archive]:
    sources = discover(arguments.selection, arguments.workloads)
    settings = workload_settings(arguments, cublas_workspace, (Mode.STRICT,))
    with Archive.fresh(arguments.output) as archive, pool:
        report = vary_workloads(settings, sources, chosen, pool, archive, progress)
        shield.enter_context(uninterrupted())
    return report, archive


def _script_varied(
    arguments: Namespace,
    cublas_workspace: CublasWorkspace,
    chosen: Chosen,
    pool: InterpreterPool,
    progress: Progress,
    shield: ExitStack,
) -> tuple[VariationReport, Archive]:
    if arguments.selection or arguments.workloads or arguments.device:
        raise UsageError("--script and -m vary one script; workloads, --workloads and --device do not go with them")
    target = target_of(arguments)
    with (
        Archive.fresh(arguments.output) as archive,
        asked_runs(arguments, target, cublas_workspace, archive) as (runs, settings),
        pool,
    ):
        report = vary_script(settings, runs, chosen, pool, archive, progress)
        shield.enter_context(uninterrupted())
    return report, archive
