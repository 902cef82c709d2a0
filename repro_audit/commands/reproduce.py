"""``repro-audit reproduce``: makes an archived audit again, here, and compares bits with the archive."""

import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import assert_never

import msgspec

from repro_audit.archive import Archive
from repro_audit.commands.diff import print_comparison
from repro_audit.commands.output import keep_evidence
from repro_audit.commands.run import audit_as
from repro_audit.commands.script import prepared_runs, script_at
from repro_audit.commands.verify import archive_folder, trusted, verified_lines
from repro_audit.difference import Archived, differences
from repro_audit.discovery import discover, sources_of_object
from repro_audit.errors import EvidenceError, UsageError
from repro_audit.exit_codes import ExitCode
from repro_audit.finish import finish
from repro_audit.interpreter_pool import InterpreterPool
from repro_audit.interrupts import uninterrupted
from repro_audit.pipes import abandon_stdout
from repro_audit.records import AuditReport, CublasWorkspace, Settings, Verdict, WorkloadSource
from repro_audit.report.evidence import Report
from repro_audit.report.plain import printable
from repro_audit.report.progress import Progress, make_progress
from repro_audit.report.reproduction_document import reproduction_document
from repro_audit.reproduction import Reproduction, reproduction
from repro_audit.script_audit import audit_script
from repro_audit.script_records import Script, ScriptReport, ScriptSettings
from repro_audit.script_runs import ScriptRuns
from repro_audit.settings import require_current_folder, worker_environment
from repro_audit.variation_records import VariationReport
from repro_audit.vary_script import vary_script
from repro_audit.vary_workloads import vary_workloads
from repro_audit.verdict import is_inventory
from repro_audit.verification import verify_archive

BUDGET_SECONDS = 600.0
"""What may be spent on a script whose new runs part among themselves; the archive does not say what was."""


def reproduce(arguments: Namespace) -> int:
    """Verifies the archive, makes its audit again, keeps that in an archive of its own, and compares the two.

    Raises:
        EvidenceError: There is no archive, or it holds an inventory.
        UsageError: What was audited is not there any more.
        WorkloadError: A workload is not there any more.
    """
    require_current_folder()
    folder = archive_folder(arguments.path).resolve()
    trust = trusted(arguments, folder)
    verified = verify_archive(folder, trust)
    if verified.report is None or verified.faults:
        for line in verified_lines(verified, folder, trust):
            print(printable(line), file=sys.stderr)
        print("repro-audit: an archive that is not as it was written is not worth reproducing", file=sys.stderr)
        return ExitCode.FINDING
    old = verified.report
    output: Path = arguments.output.resolve()
    with ExitStack() as shield:
        report, new_folder = _again(old, arguments, output, make_progress(quiet=arguments.quiet), shield)
        path = keep_evidence(report, new_folder)
    found = reproduction(
        differences(Archived(report=old, folder=folder), Archived(report=report, folder=path.parent)),
        # A `vary` has no canary: its variations tell whether they took hold.
        trusted=report.summary.complete and (isinstance(report, VariationReport) or report.summary.canaries_caught),
    )
    _print(found, arguments, path)
    return found.exit_code if report.summary.complete else ExitCode.INTERRUPTED


def _print(found: Reproduction, arguments: Namespace, path: Path) -> None:
    try:
        if arguments.format == "table" and arguments.quiet:
            print(printable(found.statement))
        else:
            print_comparison(found, reproduction_document(found), arguments.format)
        print(f"evidence: {path}", file=sys.stdout if arguments.format == "table" else sys.stderr)
        sys.stdout.flush()
    except BrokenPipeError:
        abandon_stdout()


def _again(
    old: Report, arguments: Namespace, output: Path, progress: Progress, shield: ExitStack
) -> tuple[Report, Path]:
    """Makes the audit again.

    Returns:
        The new report, and the folder of its archive.
    """
    match old:
        case AuditReport():
            return _workloads_again(old, arguments, output, progress, shield)
        case ScriptReport():
            return _script_again(old, arguments, output, progress, shield)
        case VariationReport():
            return _varied_again(old, arguments, output, progress, shield)
        case _:
            assert_never(old)


# ------------------------------------------------------------------------------------------- workloads


def _workloads_again(
    old: AuditReport, arguments: Namespace, output: Path, progress: Progress, shield: ExitStack
) -> tuple[Report, Path]:
    if is_inventory(old.settings):
        raise EvidenceError(
            f"{arguments.path} is an inventory, which holds no bits to reproduce; make a new one, and compare the two "
            "with: repro-audit diff"
        )
    ran = [result.case.device for result in old.cases if result.verdict is not Verdict.SKIP]
    settings = _workload_settings(old.settings, ran)
    sources = _sources(old.workloads, arguments.workloads)
    report, archive = audit_as(settings, sources, output, progress, shield)
    return finish(report), archive.folder


def _workload_settings(old: Settings, ran: list[str]) -> Settings:
    """The archived settings, on the devices of which there is something to compare."""
    return msgspec.structs.replace(
        old,
        devices=tuple(dict.fromkeys(ran)) or old.devices,
        required_devices=(),
        cublas_workspace=_cublas_workspace(old.cublas_workspace),
    )


def _cublas_workspace(old: CublasWorkspace) -> CublasWorkspace:
    return CublasWorkspace(value=old.value, source="archive")


def _sources(old: tuple[WorkloadSource, ...], given: list[Path]) -> tuple[WorkloadSource, ...]:
    """The workloads of those names, in the files that are given or else in those that the archive names.

    Raises:
        UsageError: A file is not there any more.
        WorkloadError: A workload is not there any more.
    """
    objects = [one for one in old if ":" in one.name]
    own = [] if given else [one for one in old if not one.bundled and one not in objects]
    for path in dict.fromkeys(one.path for one in (*own, *objects)):
        if not Path(path).is_file():
            raise UsageError(f"the workload {path} is not there any more; name where it lies now with --workloads")
    names = [one.name for one in old if one not in objects]
    found = discover(names, given or list(dict.fromkeys(one.path for one in own))) if names else ()
    for one in objects:
        same = sources_of_object(one.name.partition(":")[0], one.class_name, Path(one.path))
        found += tuple(source for source in same if source.name == one.name)
    return found


# ------------------------------------------------------------------------------------------- scripts, variations


def _script_again(
    old: ScriptReport, arguments: Namespace, output: Path, progress: Progress, shield: ExitStack
) -> tuple[Report, Path]:
    with (
        _in_its_folder(old.settings, arguments) as target,
        Archive.fresh(output) as archive,
        _prepared_again(old.settings, target, archive) as (runs, settings),
    ):
        report = audit_script(
            settings, runs, archive, progress, repeats=old.settings.repeats or None, budget_seconds=BUDGET_SECONDS
        )
        shield.enter_context(uninterrupted())
    return finish(report), archive.folder


def _varied_again(
    old: VariationReport, arguments: Namespace, output: Path, progress: Progress, shield: ExitStack
) -> tuple[Report, Path]:
    chosen = {one.name: one.values for one in old.variations}
    if old.settings is not None:
        settings = _workload_settings(old.settings, [])
        sources = _sources(old.workloads, arguments.workloads)
        with Archive.fresh(output) as archive, _pool(settings) as pool:
            report = vary_workloads(settings, sources, chosen, pool, archive, progress)
            shield.enter_context(uninterrupted())
        return finish(report), archive.folder
    assert old.script is not None, "a `vary` is of workloads or of a script"
    with (
        _in_its_folder(old.script, arguments) as target,
        Archive.fresh(output) as archive,
        _prepared_again(old.script, target, archive) as (runs, script_settings),
        _pool(script_settings) as pool,
    ):
        report = vary_script(script_settings, runs, chosen, pool, archive, progress)
        shield.enter_context(uninterrupted())
    return finish(report), archive.folder


def _pool(settings: Settings | ScriptSettings) -> InterpreterPool:
    return InterpreterPool(settings.isolation, worker_environment(os.environ, settings.cublas_workspace))


def _prepared_again(
    old: ScriptSettings, target: Script, archive: Archive
) -> AbstractContextManager[tuple[ScriptRuns, ScriptSettings]]:
    return prepared_runs(
        target,
        _cublas_workspace(old.cublas_workspace),
        archive,
        copied=old.copied,
        isolation=old.isolation,
        timeout_seconds=old.timeout_ms / 1000,
        repeats=old.repeats,
    )


@contextmanager
def _in_its_folder(old: ScriptSettings, arguments: Namespace) -> Iterator[Script]:
    """Goes to the folder that the script ran in, or to the one that the command line names, for a while.

    Raises:
        UsageError: The folder or the script is not there any more.
    """
    origin = Path.cwd()
    folder = Path(arguments.folder or old.working_directory)
    try:
        os.chdir(folder)
    except OSError as error:
        raise UsageError(
            f"cannot go to {folder}, where the script ran: {error.strerror or error}; name the folder that it is to "
            "run in with --folder"
        ) from error
    try:
        yield script_at(old.script.name, old.script.arguments, is_module=old.script.is_module)
    finally:
        os.chdir(origin)
