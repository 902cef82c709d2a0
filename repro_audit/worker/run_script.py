"""Runs a script as ``__main__`` in this process, under observation, as if Python itself had been asked to."""

import builtins
import contextlib
import importlib.util
import io
import multiprocessing.process
import os
import sys
import time
from collections.abc import Callable, Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NoReturn

import msgspec
import torch

from repro_audit.records import Alert, Failed, FailureKind, Mode, Refused, SourceLine
from repro_audit.script_records import Finished, Remedy, Restart, ScriptOutcome, ScriptRecord, ScriptTask
from repro_audit.worker.alerts import AlertLog
from repro_audit.worker.conditions import Place, apply_conditions, read_conditions
from repro_audit.worker.determinism import Watch, arm, read_flags
from repro_audit.worker.ending import exit_code, wind_up
from repro_audit.worker.failures import classified
from repro_audit.worker.generators import seed_generators
from repro_audit.worker.observation.entropy import fix_entropy, listen_to_seeds
from repro_audit.worker.observation.files import Files
from repro_audit.worker.observation.hooks import listen
from repro_audit.worker.observation.observer import Observer, Paths
from repro_audit.worker.observation.processes import LAST_WORDS, follow, watch_programs
from repro_audit.worker.observation.surroundings import fix_clock, fix_process, remark_draws
from repro_audit.worker.source_lines import line_of_stack

SEED = 0
"""Of the global generators, where a test seeds them in the script's place."""

READ_AT_START = (
    "OMP_",
    "GOMP_",
    "KMP_",
    "MKL_",
    "OPENBLAS_",
    "BLIS_",
    "GOTO_",
    "NUMEXPR_",
    "ATEN_",
    "ONEDNN_",
    "DNNL_",
    "TORCH",
    "PYTORCH_",
)
"""Beginnings of the names of variables that libraries read when they are loaded: too late once PyTorch is there."""

_now = time.time  # a remedy replaces the script's


class _Run:
    """One run of a script, and its record."""

    def __init__(self, task: ScriptTask, write: Callable[[ScriptRecord], None]) -> None:
        self._task = task
        self._write = write
        self._owner = os.getpid()
        self.paths = Paths(task.working_directory, task.copied_from)
        self.observer = Observer(Path(task.folder), self.paths, task.schedule, mode=task.mode)
        self.files = Files(self.paths, task.working_directory)
        self.log = AlertLog()
        self.tracing = None
        if task.trace is not None:
            from repro_audit.worker.observation.tracing import Tracing  # no other run needs it

            self.tracing = Tracing(task.trace, self.observer)
        self.outcome: ScriptOutcome = Failed(kind=FailureKind.RECORD, detail="the run was not finished")
        self._flags_start: dict[str, str] = {}
        self._started = _now()
        self._written = False

    def make(self) -> ScriptRecord:
        """Runs the script to its end; whatever it does short of ending the process is in the record."""
        task = self._task
        if task.mode is not None:
            arm(task.mode)
        place = Place(device=torch.device("cpu"), scratch=Path(f"{task.record_path}.place"))
        apply_conditions(task.conditions or {}, place)
        if Remedy.ENTROPY in task.remedies:
            fix_entropy(self.observer)
        if Remedy.SEEDED in task.remedies:
            seed_generators(SEED)
        self._flags_start = read_flags()
        with contextlib.ExitStack() as stack:
            if task.mode is not None:
                self.observer.watch(stack.enter_context(Watch(task.mode, varied=task.conditions or {})))
            if task.mode is Mode.WARN_ONLY:
                stack.enter_context(self.log)
            self._observe()
            self._started = _now()
            self.outcome = self._outcome()
            wind_up()
            self.observer.end()
            if self.tracing is not None:
                self.tracing.close()
            return self._record()

    def _observe(self) -> None:
        listen(self.observer)
        listen_to_seeds(self.observer)
        follow(self.observer, Path(self._task.folder), self._task.working_directory, self._task.copied_from)
        watch_programs(self.observer)
        LAST_WORDS.append(self._last_words)
        if Remedy.SEEDED in self._task.remedies:
            remark_draws(self.observer)
        if Remedy.CLOCK in self._task.remedies:
            fix_clock(self.observer)
        if Remedy.PROCESS in self._task.remedies:
            fix_process(self.observer)
        if self.tracing is not None:
            self.tracing.begin()

    def _outcome(self) -> ScriptOutcome:
        try:
            namespace, code = self._prepared()
            self.files.watch()
            _before_torch(self._restart)
            exec(code, namespace)
        except SystemExit as error:
            return Finished(exit_code=exit_code(error))
        except BaseException as error:  # noqa: BLE001 - the worker's outer shell: what a script does is a result
            outcome = classified(error, self._task.mode, repeat=0, step=self.observer.steps)
            print(outcome.detail, file=sys.stderr)
            return self._shown(outcome)
        return Finished(exit_code=0)

    def _prepared(self) -> tuple[dict[str, Any], CodeType]:
        """Sets the process up as Python does before it runs a script, or a module with ``-m``."""
        task = self._task
        os.chdir(task.working_directory)
        if "PWD" in os.environ:
            os.environ["PWD"] = task.working_directory
        vars(multiprocessing.process)["ORIGINAL_DIR"] = task.working_directory
        sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))  # type: ignore[misc]
        sys.path = [entry for entry in sys.path if entry]
        main = ModuleType("__main__")
        sys.modules["__main__"] = main
        namespace = vars(main)
        namespace["__builtins__"] = builtins
        if task.script.is_module:
            sys.path.insert(0, task.working_directory)
            spec, path, code = _module(task.script.name)
            namespace.update(
                __spec__=spec, __file__=path, __package__=spec.parent, __loader__=spec.loader, __cached__=spec.cached
            )
            sys.argv = [path, *task.script.arguments]
            sys.orig_argv = [sys.executable, "-m", task.script.name, *task.script.arguments]
            return namespace, code
        path = task.executed_path
        sys.path.insert(0, str(Path(path).parent))
        given = task.script.name if not os.path.isabs(task.script.name) else path
        sys.argv = [given, *task.script.arguments]
        sys.orig_argv = [sys.executable, given, *task.script.arguments]
        loader = SourceFileLoader("__main__", path)
        namespace.update(__file__=path, __loader__=loader, __spec__=None, __package__=None, __cached__=None)
        return namespace, loader.source_to_code(Path(path).read_bytes(), path)

    def _restart(self, variables: Mapping[str, str]) -> NoReturn:
        """Gives up before PyTorch is imported: the script set variables that count from the start."""
        line = self.paths.line(line_of_stack(sys._getframe(2)))
        self.outcome = Restart(variables=dict(variables), line=line)
        self._write(self._record())
        self._written = True
        os._exit(0)

    def _last_words(self, exit_code: int) -> None:
        """The script ends this process at once; the record is written all the same."""
        if os.getpid() != self._owner or self._written:
            return
        self._written = True
        if self.tracing is not None:
            self.tracing.close()
        self.outcome = Finished(exit_code=exit_code & 0xFF)
        self._write(self._record())

    def _record(self) -> ScriptRecord:
        return ScriptRecord(
            outcome=self.outcome,
            alerts=tuple(self._shown_alert(alert) for alert in self.log.alerts),
            flags_start=self._flags_start,
            flags_end=read_flags(),
            schedule=self.observer.schedule,
            process=os.getpid(),
            started=repr(self._started),
            ended=repr(_now()),
            files_written=self.files.written,
            files_read=self.files.read,
            conditions=read_conditions(self._task.conditions) if self._task.conditions is not None else {},
        )

    def _shown(self, outcome: Refused | Failed) -> Refused | Failed:
        if isinstance(outcome, Failed):
            return msgspec.structs.replace(outcome, detail=self._original(outcome.detail))
        return msgspec.structs.replace(
            outcome, alert=self._shown_alert(outcome.alert), detail=self._original(outcome.detail)
        )

    def _original(self, text: str) -> str:
        return text.replace(self._task.working_directory, self._task.copied_from)

    def _shown_alert(self, alert: Alert) -> Alert:
        return msgspec.structs.replace(
            alert,
            location=self._shown_line(alert.location),
            forward_location=self._shown_line(alert.forward_location),
        )

    def _shown_line(self, line: SourceLine | None) -> SourceLine | None:
        return None if line is None else msgspec.structs.replace(line, path=self.paths.shown(line.path))


def run_script(task: ScriptTask, write: Callable[[ScriptRecord], None]) -> ScriptRecord:
    """Runs a script once.

    Args:
        write: Writes the record where the script ends the process itself and this function does not return.
    """
    return _Run(task, write).make()


def _module(name: str) -> tuple[Any, str, CodeType]:
    """Finds a module as ``python -m`` does: of a package, its ``__main__``."""
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    loader: Any = spec.loader if spec is not None else None
    if spec is None or spec.origin is None or not hasattr(loader, "get_code"):
        raise ImportError(f"no module {name} that can be run with -m")
    return spec, spec.origin, loader.get_code(spec.name)


def _before_torch(restart: Callable[[Mapping[str, str]], NoReturn]) -> None:
    """Looks, where the script imports PyTorch first, for variables it has set that PyTorch reads when it is loaded."""

    def relevant() -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if name.startswith(READ_AT_START)}

    before = relevant()
    original = builtins.__import__

    def importing(name: str, *arguments: Any, **keywords: Any) -> Any:
        if name == "torch" or name.startswith("torch."):
            builtins.__import__ = original
            changed = {key: value for key, value in relevant().items() if before.get(key) != value}
            if changed:
                restart(changed)
        return original(name, *arguments, **keywords)

    builtins.__import__ = importing
