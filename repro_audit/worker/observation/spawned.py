"""Observes a process that a script started with `multiprocessing`'s ``spawn``, before anything of the script runs."""

import base64
import os
import traceback
from pathlib import Path
from typing import NoReturn

import msgspec

from repro_audit.worker.ending import exit_code, flush, wind_up
from repro_audit.worker.observation.entropy import listen_to_seeds
from repro_audit.worker.observation.hooks import listen
from repro_audit.worker.observation.observer import Observer, Paths
from repro_audit.worker.observation.processes import SpawnedTask, follow, watch_programs


def run_observed(text: str, program: str) -> NoReturn:
    """Runs in this process what `multiprocessing` started it for, under observation, and ends the process.

    Args:
        text: The `SpawnedTask`, in JSON and base64.
        program: What stood on the command line.
    """
    task = msgspec.json.decode(base64.b64decode(text), type=SpawnedTask)
    observer = Observer(
        Path(task.folder),
        Paths(task.copy, task.original),
        None,
        name=task.stream,
        mode=None,
    )
    listen(observer)
    listen_to_seeds(observer)
    follow(observer, Path(task.folder), task.copy, task.original)
    watch_programs(observer)
    code = 0
    try:
        exec(program, {"__name__": "__main__"})
    except SystemExit as error:
        code = exit_code(error)
    except BaseException:  # noqa: BLE001 - the process's outer shell
        traceback.print_exc()
        code = 1
    wind_up()
    flush()
    os._exit(code)  # which ends the observer, too
