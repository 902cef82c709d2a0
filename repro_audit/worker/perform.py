"""Performs one task in this process and ends it."""

import faulthandler
import os
import sys
import traceback
from pathlib import Path
from typing import NoReturn, assert_never

import msgspec
import torch

from repro_audit.exit_codes import WORKER_CRASHED
from repro_audit.records import (
    EnvironmentTask,
    Measurement,
    MeasureTask,
    Mode,
    Record,
    RunTask,
    WorkerEnvironment,
)
from repro_audit.script_records import ScriptTask
from repro_audit.tasks import Task
from repro_audit.worker.determinism import arm, read_flags
from repro_audit.worker.distance import measure
from repro_audit.worker.ending import flush
from repro_audit.worker.environment import devices, torch_facts
from repro_audit.worker.execute import execute
from repro_audit.worker.run_script import run_script

_leave = os._exit
"""As Python made it: a script's own calls of it are listened to."""


def perform_and_exit(task: Task) -> NoReturn:
    """Performs the task, writes its record and ends the process without the interpreter's own shutdown.

    A forked child would otherwise run the exit handlers of the process it was forked from.
    """
    owner = os.getpid()
    faulthandler.enable()  # a crash, or the parent's SIGABRT at a timeout, then says where
    try:
        # A dying process has to leave what it printed, and a forked one must not print its parent's buffer again.
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        _write(_answer(task, owner), task.record_path, owner)
        code = 0
    except BaseException:  # noqa: BLE001 - the worker's outer shell
        traceback.print_exc()
        code = WORKER_CRASHED
    flush()
    _leave(code)


def _answer(task: Task, owner: int) -> Record:
    match task:
        case ScriptTask():
            return run_script(task, lambda record: _write(record, task.record_path, owner))
        case RunTask():
            return execute(task)
        case EnvironmentTask():
            facts = torch_facts()
            present, absent = devices()
            arm(Mode.STRICT)
            return WorkerEnvironment(torch=facts, devices=present, absent_devices=absent, flags=read_flags())
        case MeasureTask():
            return Measurement(distance=measure(_load(task.first_path), _load(task.second_path)))
        case _:
            assert_never(task)


def _load(path: str) -> object:
    # Written moments ago by this tool's own workers, into a folder only the user can write to.
    return torch.load(path, map_location="cpu", weights_only=False)


def _write(answer: Record, path: str, owner: int) -> None:
    if os.getpid() != owner:
        # The workload forked and let its child return into the auditor: only the first process speaks for the run.
        return
    partial = Path(f"{path}.partial")
    partial.write_bytes(msgspec.json.encode(answer))
    partial.rename(path)
