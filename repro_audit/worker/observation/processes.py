"""Follows a script into the processes that it starts: forked ones are observed as the first is, spawned ones unarmed.

A forked child inherits everything. A child of `multiprocessing`'s ``spawn`` is a new interpreter, in which strict mode
is off unless the script switches it on there: the audit leaves that as it is, and says so. Other programs are not
observed; that they were started is remarked.
"""

import base64
import functools
import multiprocessing.forkserver
import multiprocessing.spawn
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from repro_audit.records import Record
from repro_audit.script_records import Point
from repro_audit.worker.observation.observer import Observer
from repro_audit.worker.source_lines import line_of_stack, starts_thread


class SpawnedTask(Record, frozen=True, kw_only=True):
    """What a spawned process has to know to observe itself."""

    folder: str
    stream: str
    copy: str
    original: str


def follow(observer: Observer, folder: Path, copy: str, original: str) -> None:
    """Hooks into the ways that Python has to start a process, and to end one without ceremony."""
    _forks(observer)
    _spawns(observer, folder, copy, original)
    _threads(observer)
    _exits(observer)


def _forks(observer: Observer) -> None:
    coming: list[str] = []

    def before() -> None:
        frame = sys._getframe(1)
        observer.children[""] += 1
        name = f"{observer.name}/{observer.children['']}"
        coming.append(name)
        with observer.guarded() as observing:
            if observing:
                observer.remark(Point.CHILD, "fork", frame, {"stream": name})

    def in_child() -> None:
        if coming:
            observer.forked(coming.pop())

    os.register_at_fork(before=before, after_in_parent=lambda: coming and coming.pop(), after_in_child=in_child)


def _spawns(observer: Observer, folder: Path, copy: str, original: str) -> None:
    command_line = multiprocessing.spawn.get_command_line

    @functools.wraps(command_line)
    def observed(**keywords: Any) -> list[str]:
        command = command_line(**keywords)
        if "-c" not in command:
            return command  # a frozen program
        frame = sys._getframe(1)
        observer.children["s"] += 1
        task = SpawnedTask(
            folder=str(folder),
            stream=f"{observer.name}/s{observer.children['s']}",
            copy=copy,
            original=original,
        )
        with observer.guarded() as observing:
            if observing:
                observer.remark(Point.CHILD, "spawn", frame, {"stream": task.stream})
        position = command.index("-c") + 1
        package = str(Path(__file__).resolve().parents[3])
        text = base64.b64encode(msgspec.json.encode(task)).decode()
        module = "repro_audit.worker.observation.spawned"
        begin = f"import sys; sys.path.append({package!r}); from {module} import run_observed; "
        command[position] = f"{begin}run_observed({text!r}, {command[position]!r})"
        return command

    multiprocessing.spawn.get_command_line = observed


def _threads(observer: Observer) -> None:
    """Remarks the lines of the script that start threads; those of libraries are theirs to keep in order."""
    start = threading.Thread.start
    lines: set[str] = set()

    @functools.wraps(start)
    def started(self: threading.Thread) -> None:
        frame = sys._getframe(1)
        line = observer.paths.line(line_of_stack(frame)) if starts_thread(frame) else ""
        if line and line not in lines:
            lines.add(line)
            with observer.guarded() as observing:
                if observing:
                    observer.remark(Point.CHILD, "thread", frame, {})
        start(self)

    threading.Thread.start = started  # type: ignore[method-assign]


def _exits(observer: Observer) -> None:
    leave = os._exit

    @functools.wraps(leave)
    def left(status: int) -> None:
        for hook in (lambda _: observer.end(), *LAST_WORDS):
            try:
                hook(status)
            except Exception:  # noqa: BLE001 - a process that wants to end ends
                continue
        leave(status)

    os._exit = left  # type: ignore[assignment]


LAST_WORDS: list[Callable[[int], None]] = []
"""Called with the exit code when the script ends its process by `os._exit`, after the observer."""


def watch_programs(observer: Observer) -> None:
    """Remarks programs that the script starts, which cannot be observed."""

    def audited(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in ("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec"):
            return
        line = line_of_stack(sys._getframe(1))
        program = arguments[0] if arguments else ""
        if line is None or (
            isinstance(program, str | bytes) and os.fsdecode(program) == sys.executable and _is_ours(arguments)
        ):
            return
        with observer.guarded() as observing:
            if observing:
                shown = os.path.basename(os.fsdecode(program)) if isinstance(program, str | bytes) else str(program)
                observer.remark(Point.CHILD, "program", sys._getframe(1), {"program": shown[:200]})

    sys.addaudithook(audited)


def _is_ours(arguments: tuple[Any, ...]) -> bool:
    """Whether it is a spawned child, or the process that tracks its resources: those are no programs of the user's."""
    return any("multiprocessing" in str(argument) for argument in arguments[1:2])
