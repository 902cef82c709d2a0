"""Runs small scripts for tests, as the audit does, in two interpreters that all tests share."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from repro_audit.archive import Archive
from repro_audit.interpreter import Interpreter
from repro_audit.interpreters import interpreter_pair
from repro_audit.plan import Zygote
from repro_audit.recording import Recorded
from repro_audit.recording_compare import compare_recordings
from repro_audit.records import Isolation, Mode
from repro_audit.report.progress import SilentProgress
from repro_audit.script_audit import audit_script
from repro_audit.script_launch import run_recorded
from repro_audit.script_records import Script, ScriptComparison, ScriptReport, ScriptSettings, ScriptTask
from repro_audit.script_runs import ScriptRuns
from repro_audit.settings import resolve_cublas_workspace, worker_environment
from repro_audit.stdin_replay import StdinReplay
from repro_audit.working_copy import WorkingCopies

Pair = Mapping[Zygote, Interpreter]


@contextmanager
def shared_pair() -> Iterator[Pair]:
    """Two interpreters without what whoever runs the tests has fixed."""
    environ = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONHASHSEED", "CUBLAS_WORKSPACE_CONFIG")
    }
    with interpreter_pair(Isolation.FORK, worker_environment(environ, resolve_cublas_workspace(None, environ))) as pair:
        yield pair


def script_of(path: Path, *arguments: str) -> Script:
    return Script(
        name=path.name,
        path=str(path),
        is_module=False,
        arguments=arguments,
        sha256=f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}",
    )


def record(pair: Pair, zygote: Zygote, script: Script, folder: Path, **fields: object) -> Recorded:
    """One run of a script, in its own folder."""
    folder.mkdir(parents=True)
    home = str(Path(script.path).parent)
    defaults = {"mode": Mode.STRICT, "schedule": None, "working_directory": home, "copied_from": home}
    task = ScriptTask(
        run=folder.name,
        script=script,
        executed_path=script.path,
        folder=str(folder),
        record_path=str(folder / "run.json"),
        **{**defaults, **fields},
    )
    return run_recorded(pair[zygote], task, 60.0, None).recorded


def compared(pair: Pair, text: str, folder: Path) -> tuple[ScriptComparison, Recorded, Recorded]:
    """Two runs of a script in two interpreters, compared."""
    folder.mkdir(exist_ok=True)
    path = folder / "script.py"
    path.write_text(text)
    script = script_of(path)
    first = record(pair, Zygote.A, script, folder / "first")
    second = record(pair, Zygote.B, script, folder / "second", schedule=first.recording.schedule or None)
    return compare_recordings(first, second), first, second


class SharedRuns(ScriptRuns):
    """Runs in interpreters that are there already, and stay."""

    pair: Pair

    def start(self, extra: Mapping[str, str] | None = None) -> dict[Zygote, Interpreter]:
        assert not extra, "a script that needs other interpreters is for the command line's own tests"
        self._pair = dict(self.pair)
        return self._pair


def audited(
    pair: Pair, text: str, folder: Path, *, repeats: int | None = 1, apart_seconds: float = 0.05
) -> ScriptReport:
    """The whole audit of a script."""
    home = folder / "home"
    home.mkdir()
    path = home / "script.py"
    path.write_text(text)
    scratch = folder / "scratch"
    scratch.mkdir()
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONHASHSEED"}
    workspace = resolve_cublas_workspace(":4096:8", environ)
    copies = WorkingCopies(home, scratch)
    runs = SharedRuns(
        script=script_of(path),
        origin=home,
        copies=copies,
        stdin=StdinReplay(scratch / "stdin", None),
        isolation=Isolation.FORK,
        variables=worker_environment(environ, workspace),
        timeout_seconds=60.0,
        scratch=scratch,
    )
    runs.pair = pair
    runs.apart_seconds = apart_seconds
    settings = ScriptSettings(
        script=runs.script,
        working_directory=str(home),
        copied=True,
        linked={},
        repeats=1,
        timeout_ms=60_000,
        isolation=Isolation.FORK,
        cublas_workspace=workspace,
        variables={},
    )
    archive = Archive.create(folder / "reports", datetime.now(UTC))
    try:
        return audit_script(settings, runs, archive, SilentProgress(), repeats=repeats, budget_seconds=120.0)
    finally:
        copies.close()


def line_of(text: str, part: str) -> int:
    """The number of the line that holds a part."""
    return next(number for number, line in enumerate(text.splitlines(), start=1) if part in line)
