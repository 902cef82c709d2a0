"""Observes a process that a script started with `multiprocessing`'s ``spawn``, before anything of the script runs."""

import atexit
import base64
from pathlib import Path

import msgspec

from repro_audit.worker.observation.entropy import listen_to_seeds
from repro_audit.worker.observation.hooks import listen
from repro_audit.worker.observation.observer import Observer, Paths
from repro_audit.worker.observation.processes import SpawnedTask, follow, watch_programs


def observe(text: str) -> None:
    """Begins to observe this process; called from the command line that it is started with."""
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
    atexit.register(observer.end)
