"""``repro-audit script``, ``record`` and ``compare``: audits of scripts as they stand."""

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from repro_audit.archive import Archive
from repro_audit.commands.output import conclude, require_outputs
from repro_audit.errors import EvidenceError, UsageError
from repro_audit.exit_codes import ExitCode
from repro_audit.interpreter import Ended, elapsed_ms, worker_command
from repro_audit.interpreters import interpreter_pair
from repro_audit.interrupts import uninterrupted
from repro_audit.launch import read_environment
from repro_audit.modules import find_module
from repro_audit.plan import Zygote
from repro_audit.recording import breaches_of, load_recording, same_run, save_recording
from repro_audit.recording_compare import compare_recordings
from repro_audit.records import CublasWorkspace, EnvironmentTask, Isolation, Mode, Verdict
from repro_audit.report.progress import make_progress
from repro_audit.report.script_table import comparison_text
from repro_audit.script_audit import audit_script
from repro_audit.script_launch import recorded_run
from repro_audit.script_records import Script, ScriptSettings, ScriptTask
from repro_audit.script_runs import ScriptRuns
from repro_audit.script_verdict import judge_script
from repro_audit.settings import require_current_folder, resolve_cublas_workspace, worker_environment
from repro_audit.stdin_replay import StdinReplay
from repro_audit.system import parent_environment
from repro_audit.working_copy import WorkingCopies


def script(arguments: Namespace) -> int:
    """Audits a script, writes evidence, prints the report."""
    require_current_folder()
    require_outputs(arguments)
    target = target_of(arguments)
    cublas_workspace = resolve_cublas_workspace(arguments.cublas_workspace, os.environ)
    with ExitStack() as shield:
        with (
            Archive.fresh(arguments.output) as archive,
            asked_runs(arguments, target, cublas_workspace, archive) as (runs, settings),
        ):
            report = audit_script(
                settings,
                runs,
                archive,
                make_progress(quiet=arguments.quiet),
                repeats=arguments.repeats,
                budget_seconds=arguments.budget,
                steps=arguments.steps,
                module=arguments.module_glob,
            )
            shield.enter_context(uninterrupted())
        return conclude(report, archive.folder, arguments)


def asked_runs(
    arguments: Namespace, target: Script, cublas_workspace: CublasWorkspace, archive: Archive
) -> AbstractContextManager[tuple[ScriptRuns, ScriptSettings]]:
    """What `prepared_runs` gives for what the command line asks for."""
    return prepared_runs(
        target,
        cublas_workspace,
        archive,
        copied=arguments.working_directory == "copy",
        isolation=Isolation(arguments.isolation),
        timeout_seconds=arguments.timeout,
        repeats=arguments.repeats or 0,
    )


@contextmanager
def prepared_runs(
    target: Script,
    cublas_workspace: CublasWorkspace,
    archive: Archive,
    *,
    copied: bool,
    isolation: Isolation,
    timeout_seconds: float,
    repeats: int,
) -> Iterator[tuple[ScriptRuns, ScriptSettings]]:
    """What makes the runs of a script, and the settings that they are made with; cleared away at the end.

    Args:
        archive: Lies in no copy of the working directory.
        copied: Whether each run gets its own copy of the working directory.
        timeout_seconds: Of one run.
        repeats: 0 where how long a run takes is to decide.
    """
    origin = Path.cwd()
    with ExitStack() as stack:
        scratch = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="repro-audit-script-", ignore_cleanup_errors=True))
        )
        copies: WorkingCopies | None = None
        if copied:
            copies = WorkingCopies(origin, scratch, exclude=(archive.folder.resolve().parent,))
            stack.callback(copies.close)
            copies.prepare()
        stdin = StdinReplay(scratch / "stdin")
        stack.callback(stdin.close)
        runs = ScriptRuns(
            script=target,
            origin=origin,
            copies=copies,
            stdin=stdin,
            isolation=isolation,
            variables=worker_environment(os.environ, cublas_workspace),
            timeout_seconds=timeout_seconds,
            scratch=scratch,
        )
        stack.callback(runs.close)
        yield (
            runs,
            ScriptSettings(
                script=target,
                working_directory=str(origin),
                copied=copied,
                linked=dict(copies.linked) if copies is not None else {},
                repeats=repeats,
                timeout_ms=round(timeout_seconds * 1000),
                isolation=runs.isolation,
                cublas_workspace=cublas_workspace,
                variables={},
            ),
        )


def target_of(arguments: Namespace) -> Script:
    """The script that the command line names.

    Raises:
        UsageError: There is none, or it is no file of Python source.
        WorkloadError: There is no such module.
    """
    words = [*([] if arguments.script is None else [arguments.script]), *arguments.given]
    if words[:1] == ["-m"] and len(words) > 1 and arguments.run_module is None:
        arguments.run_module = words[1]
        del words[:2]
    if arguments.run_module is not None:
        return script_at(arguments.run_module, words, is_module=True)
    if not words:
        raise UsageError("name a script, or a module with -m: repro-audit script train.py -- --epochs 1")
    return script_at(words[0], words[1:], is_module=False)


def script_at(name: str, arguments: Sequence[str], *, is_module: bool) -> Script:
    """The script of that name, as seen from the current folder.

    Args:
        name: A path, or the dotted name of a module.

    Raises:
        UsageError: It is no file of Python source.
        WorkloadError: There is no such module.
    """
    path = find_module(name) if is_module else Path(name)
    if is_module and path.name == "__init__.py":  # a package runs by its `__main__`
        path = path.with_name("__main__.py")
    if path.is_dir():
        raise UsageError(f"{name} is a folder; name the Python file to run, or a package with -m")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the script {name}: {error.strerror or error}; check the path") from error
    return Script(
        name=name,
        path=str(path.resolve()),
        is_module=is_module,
        arguments=tuple(arguments),
        sha256=f"sha256:{hashlib.sha256(content).hexdigest()}",
    )


def record(arguments: Namespace) -> int:
    """Runs a script once, in sight of whoever asked, and keeps what was observed."""
    require_current_folder()
    target = target_of(arguments)
    cublas_workspace = resolve_cublas_workspace(arguments.cublas_workspace, os.environ)
    variables = worker_environment(os.environ, cublas_workspace)
    schedule = load_recording(arguments.like).recording.schedule if arguments.like is not None else None
    rank = os.environ.get("RANK", "")
    folder = arguments.output / f"rank{rank}" if rank.isdecimal() else arguments.output
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; name a new folder with --output")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make {folder}: {error.strerror or error}; name another with --output") from error
    task = ScriptTask(
        run=folder.name,
        script=target,
        executed_path=target.path,
        working_directory=os.getcwd(),
        copied_from=os.getcwd(),
        mode=None if arguments.mode == "none" else Mode(arguments.mode),
        folder=str(folder.resolve()),
        record_path=str(folder.resolve() / "run.json"),
        schedule=schedule,
    )
    ended = _in_sight(task, variables)
    made = recorded_run(task, ended, float("inf"), 0, os.environ)
    if made.restart is not None:
        for path in (folder / "streams").glob("*"):
            path.unlink()
        ended = _in_sight(task, variables | made.restart.variables)
        made = recorded_run(task, ended, float("inf"), 0, os.environ)
    with interpreter_pair(Isolation.EXEC, variables) as pair:
        environment = parent_environment(
            read_environment(pair[Zygote.A], EnvironmentTask(record_path=str(folder / "environment.json")), 300.0), []
        )
    with suppress(OSError):
        (folder / "environment.json").unlink()
    recording = msgspec.structs.replace(made.recorded.recording, environment=environment)
    path = save_recording(recording, folder)
    count = sum(stream.observations for stream in recording.streams)
    print(f"recording: {path.parent} ({count} observations)", file=sys.stderr)
    if not count:
        print("repro-audit: nothing could be observed in this script", file=sys.stderr)
        return ExitCode.INCOMPLETE
    code = getattr(recording.outcome, "exit_code", None)
    return ExitCode.VERIFIED if code == 0 else ExitCode.INCOMPLETE


def _in_sight(task: ScriptTask, variables: dict[str, str]) -> Ended:
    """Runs the task in an interpreter of its own, with our stdin, stdout and stderr."""
    start = time.monotonic()
    text = msgspec.json.encode(task).decode()
    process = subprocess.Popen(worker_command("once", text), env=variables)
    while True:
        try:
            code = process.wait()
            break
        except KeyboardInterrupt:  # whoever sent it to us may not have sent it to the script
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
    return Ended(
        pid=process.pid,
        exit_code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        timed_out=False,
        lost="",
        duration_ms=elapsed_ms(start),
        stdout=b"",
        stderr=b"",
        stdout_bytes=0,
        stderr_bytes=0,
    )


def compare(arguments: Namespace) -> int:
    """Compares recordings with the first one; of distributed jobs rank by rank."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    ours = _ranks(arguments.first)
    verdicts: set[Verdict] = set()
    for path in arguments.others:
        theirs = _ranks(path)
        if theirs.keys() != ours.keys():
            raise EvidenceError(
                f"{path} holds other ranks than {arguments.first}: {_listed(theirs)} and {_listed(ours)}. "
                "Compare recordings of jobs of the same size."
            )
        for rank, folder in theirs.items():
            first, second = load_recording(ours[rank]), load_recording(folder)
            if same_run(first, second):
                raise EvidenceError(
                    f"{ours[rank]} and {folder} are recordings of one and the same run, which shows nothing. "
                    "Record a second run."
                )
            comparison = compare_recordings(first, second)
            breaches = tuple(breaches_of((first, second)))
            judgement = judge_script((first.recording, second.recording), (comparison,), breaches, repeats=1)
            verdicts.add(judgement[0])
            for line in comparison_text(comparison, first, second, judgement, rank):
                console.print(line, markup=False)
    if verdicts & {Verdict.FAIL, Verdict.REFUSED}:
        return ExitCode.FINDING
    return ExitCode.VERIFIED if verdicts == {Verdict.PASS} else ExitCode.INCOMPLETE


def _listed(ranks: Mapping[str, Path]) -> str:
    return ", ".join(rank or "one recording" for rank in ranks)


def _ranks(path: Path) -> dict[str, Path]:
    """The recordings of a job by rank; a recording that stands for itself has the rank ``""``."""
    if not path.is_dir():
        raise EvidenceError(f"{path} is no folder. Name the folder that `repro-audit record` wrote.")
    ranks = {folder.name: folder for folder in sorted(path.glob("rank*")) if folder.is_dir()}
    return ranks or {"": path}
