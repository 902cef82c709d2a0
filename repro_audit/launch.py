"""Has runs made by interpreters and turns however they ended into records."""

import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from repro_audit.compare import LOSS_LEAF
from repro_audit.digests import state_digest
from repro_audit.errors import LaunchError
from repro_audit.exit_codes import WORKER_CRASHED
from repro_audit.interpreter import Ended, Interpreter, never_started
from repro_audit.interpreter_pool import InterpreterPool
from repro_audit.plan import PlannedRun, Zygote
from repro_audit.records import (
    Completed,
    Cost,
    EnvironmentTask,
    Failed,
    FailureKind,
    Measurement,
    MeasureTask,
    Role,
    Run,
    RunTask,
    States,
    WorkerEnvironment,
    WorkerRecord,
)
from repro_audit.tasks import Task
from repro_audit.wording import DETAIL_CHARACTERS

RECORD_CAP_BYTES = 1 << 30
"""A record larger than this is not read: the parent must outlive any workload."""

AnswerType = TypeVar("AnswerType", WorkerEnvironment, Measurement)


@dataclass(frozen=True, kw_only=True)
class Launched:
    """A run that was made, with what is kept beside it."""

    run: Run
    states: States
    roles: dict[str, Role]
    ended: Ended
    conditions: dict[str, str] = field(default_factory=dict)
    """See `WorkerRecord`."""
    cost: Cost | None = None
    peak_bytes: int = 0
    """See `WorkerRecord`."""


class Launcher(Protocol):
    """What an audit needs of the other side of the process boundary."""

    def run(self, planned: PlannedRun) -> Launched:
        """Makes a run; whatever becomes of it is in the result."""

    def environment(self, task: EnvironmentTask) -> WorkerEnvironment:
        """Asks a worker what it runs on."""

    def measure(self, task: MeasureTask) -> Measurement | None:
        """Has the distance of two fetched values measured; None where that failed."""


class ProcessLauncher:
    """The real launcher: one process per task."""

    def __init__(
        self, interpreters: dict[Zygote, Interpreter], timeout_seconds: float, pool: InterpreterPool | None = None
    ) -> None:
        """Takes interpreters that stay the caller's.

        Args:
            pool: Has those of runs that are started otherwise than the two; an audit without a divergence needs none.
        """
        self._interpreters = interpreters
        self._timeout_seconds = timeout_seconds
        self._pool = pool

    def run(self, planned: PlannedRun) -> Launched:
        """Makes a run, in a process forked from the planned interpreter."""
        interpreter = self._interpreters[planned.zygote]
        if planned.start is not None:
            assert self._pool is not None, "a run that is started otherwise needs a pool"
            self._pool.warm([planned.start])
            interpreter = self._pool.interpreter(planned.start, planned.zygote)
        return make_run(interpreter, planned.task, self._timeout_seconds)

    def environment(self, task: EnvironmentTask) -> WorkerEnvironment:
        """Asks a worker forked from A what it runs on.

        Raises:
            LaunchError: It did not answer; without it nothing can be said of any run.
        """
        return read_environment(self._interpreters[Zygote.A], task, self._timeout_seconds)

    def measure(self, task: MeasureTask) -> Measurement | None:
        """Has the distance of two fetched values measured in a worker forked from B."""
        return read_measurement(self._interpreters[Zygote.B], task, self._timeout_seconds)


def make_run(interpreter: Interpreter, task: RunTask, timeout_seconds: float) -> Launched:
    """Makes a run in a process of its own; whatever becomes of it is in the result."""
    kills_before = out_of_memory_kills()
    try:
        ended = interpreter.perform(task, timeout_seconds)
    except LaunchError as error:
        # It could be started when the audit began, or nothing would run now: what was gathered must not be lost.
        ended = never_started(str(error))
    record = failure_of(ended, timeout_seconds, out_of_memory_kills() - kills_before) or read_record(task)
    if isinstance(record, Failed):
        run = Run(name=task.run, mode=task.mode, repeats=task.repeats, outcome=record)
        return Launched(run=run, states={}, roles={}, ended=ended)
    run = Run(
        name=task.run,
        mode=task.mode,
        repeats=task.repeats,
        outcome=record.outcome,
        alerts=record.alerts,
        breaches=record.breaches,
        flags_start=record.flags_start,
        flags_end=record.flags_end,
        seeded=record.seeded,
        notes=record.notes,
    )
    return Launched(
        run=run,
        states=record.states,
        roles=record.roles,
        ended=ended,
        conditions=record.conditions,
        cost=record.cost,
        peak_bytes=record.peak_bytes,
    )


def read_environment(interpreter: Interpreter, task: EnvironmentTask, timeout_seconds: float) -> WorkerEnvironment:
    """Asks a worker what it runs on.

    Raises:
        LaunchError: It did not answer; without it nothing can be said of any run.
    """
    ended = interpreter.perform(task, timeout_seconds)
    answer = _read_answer(task, WorkerEnvironment)
    if answer is None:
        failure = failure_of(ended, timeout_seconds, 0)
        raise LaunchError(
            "the worker could not describe its environment: "
            f"{failure.detail if failure else 'it left no record'}\n"
            "Check that `python -c 'import torch; print(torch.cuda.is_available())'` works there."
        )
    return answer


def read_measurement(interpreter: Interpreter, task: MeasureTask, timeout_seconds: float) -> Measurement | None:
    """Has the distance of two stored values measured; None where that failed."""
    try:
        interpreter.perform(task, timeout_seconds)
    except LaunchError:
        return None
    return _read_answer(task, Measurement)


def failure_of(ended: Ended, timeout_seconds: float, kills: int) -> Failed | None:
    """How the process failed, or None where it ended well.

    Args:
        kills: How many processes the kernel killed for memory while the run went on.
    """
    stderr = ended.stderr.decode(errors="backslashreplace")[-DETAIL_CHARACTERS:].strip()

    def failed(kind: FailureKind, words: str, name: str | None = None) -> Failed:
        detail = f"{words}\n{stderr}" if stderr else words
        return Failed(kind=kind, detail=detail, exit_code=ended.exit_code, signal=name)

    if ended.lost:
        return failed(FailureKind.LAUNCH, ended.lost)
    if ended.timed_out:
        return failed(FailureKind.TIMEOUT, f"no end after {timeout_seconds:g} s; killed")
    if ended.signal is not None:
        name = _signal_name(ended.signal)
        if kills > 0:
            return failed(FailureKind.OUT_OF_MEMORY, f"killed by {name}: the kernel ran out of memory", name)
        hint = ", as the kernel does when memory runs out" if ended.signal == signal.SIGKILL else ""
        return failed(FailureKind.SIGNAL, f"killed by {name}{hint}", name)
    if ended.exit_code == WORKER_CRASHED and b"repro_audit" in ended.stderr:
        return failed(FailureKind.RECORD, "the worker failed to record the run")
    if ended.exit_code != 0:
        return failed(FailureKind.EXIT, f"the workload ended the process with exit code {ended.exit_code}")
    return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def read_record(task: RunTask) -> WorkerRecord | Failed:
    """The record of a run that ended with exit code 0, or why there is none that can be used."""
    path = Path(task.record_path)
    try:
        if path.stat().st_size > RECORD_CAP_BYTES:
            return _unusable(f"the record is larger than {RECORD_CAP_BYTES} bytes")
        record = msgspec.json.decode(path.read_bytes(), type=WorkerRecord, strict=True)
    except FileNotFoundError:
        return Failed(
            kind=FailureKind.EXIT, detail="the workload ended the process before the run was over", exit_code=0
        )
    except OSError as error:
        return _unusable(f"the record cannot be read: {error}")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _unusable(f"the record is damaged: {error}")
    return _contradiction(task, record) or record


def _unusable(words: str) -> Failed:
    return Failed(kind=FailureKind.RECORD, detail=words, exit_code=0)


def _contradiction(task: RunTask, record: WorkerRecord) -> Failed | None:
    """Why a record is not what was asked for: a comparison of less than that must never be a PASS."""
    for digest, state in record.states.items():
        if state_digest(state.leaves) != digest:
            return _unusable(f"state {digest} does not hold what its digest says")
        if missing := state.leaves.keys() - record.roles.keys():
            return _unusable(f"leaf {min(missing)} has no role")
    if not isinstance(record.outcome, Completed):
        return None
    repeats = record.outcome.repeats
    if len(repeats) != task.repeats:
        return _unusable(f"{len(repeats)} repeats were recorded, {task.repeats} asked for")
    for repeat in repeats:
        if len(repeat.states) != task.steps + 1:
            return _unusable(f"{len(repeat.states)} states were recorded, after setup and {task.steps} steps asked for")
        for step, digest in enumerate(repeat.states):
            if digest not in record.states:
                return _unusable(f"the state after step {step} is missing")
            if step and (record.states[digest].loss is None or LOSS_LEAF not in record.states[digest].leaves):
                return _unusable(f"the loss of step {step} is missing")
        last = record.states[repeat.states[-1]].leaves
        if all(record.roles[leaf] in (Role.LOSS, Role.RNG) for leaf in last):
            return Failed(kind=FailureKind.EMPTY, detail="state() held nothing after the last step", exit_code=0)
    return None


def _read_answer(task: Task, kind: type[AnswerType]) -> AnswerType | None:
    try:
        return msgspec.json.decode(Path(task.record_path).read_bytes(), type=kind, strict=True)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def out_of_memory_kills() -> int:
    """How often the kernel has killed for memory in this process's control group.

    Source: https://docs.kernel.org/admin-guide/cgroup-v2.html, ``memory.events``. 0 where that is not to be had.
    """
    try:
        group = Path("/proc/self/cgroup").read_text().strip().rpartition("::")[2]
        events = Path(f"/sys/fs/cgroup{group}/memory.events").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in events.splitlines() if line.startswith("oom_kill "))
