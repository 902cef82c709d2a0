"""Zygotes: interpreters that import PyTorch once, then fork a process per task.

The parent speaks to a zygote over a socket: it sends one line of JSON, the task, together with four descriptors: where
the task's stdout and stderr go, a socket for this task alone, and the task's stdin. On that socket the zygote answers
``started PID``, then ``exited CODE`` or ``killed SIGNAL``; the parent may send ``abort`` or ``kill``.
"""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import IO

import msgspec

from repro_audit.errors import LaunchError
from repro_audit.interpreter import ABORT_PATIENCE_SECONDS, Ended, elapsed_ms, worker_command
from repro_audit.pump import Pump
from repro_audit.tasks import Task
from repro_audit.wording import DETAIL_CHARACTERS

START_TIMEOUT_SECONDS = 300.0
"""Importing PyTorch from a cold network disk takes minutes."""


class WarmInterpreter:
    """A zygote: imports PyTorch once, then forks a child per task, in about a hundredth of the time."""

    def __init__(self, name: str, environment: Mapping[str, str], *, fixed_addresses: bool = False) -> None:
        self.name = name
        self._fixed_addresses = fixed_addresses
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._complaints: IO[bytes] | None = None
        self._ready = False

    def start(self) -> None:
        """Starts the zygote where none is running."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        ours, theirs = socket.socketpair()
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the zygote
        with theirs:
            try:
                self._process = subprocess.Popen(
                    worker_command("zygote", str(theirs.fileno()), fixed_addresses=self._fixed_addresses),
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._complaints,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,  # a Ctrl-C in the terminal is the parent's to handle
                )
            except OSError as error:
                ours.close()
                raise LaunchError(f"cannot start {sys.executable}: {error}") from error
        self._control = ours
        self._ready = False

    def await_ready(self) -> None:
        """Waits until the zygote has imported PyTorch."""
        self._await_ready()

    def _await_ready(self) -> socket.socket:
        self.start()
        assert self._control is not None
        if not self._ready:
            self._control.settimeout(START_TIMEOUT_SECONDS)
            try:
                greeting = self._control.recv(64)
            except (TimeoutError, OSError) as error:
                greeting = str(error).encode()
            if greeting != b"ready\n":
                complaint = self._last_words() or self._how_it_ended()
                self.close()
                raise LaunchError(
                    f"worker interpreter {self.name} ({sys.executable}) did not come up: "
                    f"{complaint}\nCheck that `python -c 'import torch'` works there."
                )
            self._control.settimeout(None)
            self._ready = True
        return self._control

    def _last_words(self) -> str:
        if self._complaints is None:
            return ""
        self._complaints.seek(0)
        return self._complaints.read()[-DETAIL_CHARACTERS:].decode(errors="backslashreplace").strip()

    def _how_it_ended(self) -> str:
        """What is known of a zygote that said nothing."""
        assert self._process is not None
        try:
            code = self._process.wait(ABORT_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            return f"it gave no sign of life within {START_TIMEOUT_SECONDS:g} s"
        if code < 0:
            return f"it was killed by signal {-code}, as the kernel does when memory runs out"
        return f"it ended with exit code {code}"

    def perform(self, task: Task, timeout_seconds: float, stdin: int | None = None) -> Ended:
        """Forks a child for the task and waits for its end."""
        control = self._await_ready()
        out_read, out_write = os.pipe()
        error_read, error_write = os.pipe()
        stdout, stderr = Pump(out_read), Pump(error_read)
        ours, theirs = socket.socketpair()
        given = os.open(os.devnull, os.O_RDONLY) if stdin is None else os.dup(stdin)
        start = time.monotonic()
        with ours:
            try:
                descriptors = [out_write, error_write, theirs.fileno(), given]
                socket.send_fds(control, [msgspec.json.encode(task) + b"\n"], descriptors)
            except OSError:
                pass  # the zygote is gone: its end of the task's socket closes with ours, and is seen below
            finally:
                for descriptor in (out_write, error_write, given):
                    os.close(descriptor)
                theirs.close()
            pid, words, timed_out = _converse(ours, start + timeout_seconds)
        exit_code: int | None = None
        number: int | None = None
        lost = ""
        match words:
            case ["exited", code]:
                exit_code = int(code)
            case ["killed", code]:
                number = int(code)
            case _:
                lost = f"interpreter {self.name} died during the run; {self._last_words() or 'it said nothing'}"
                self.close()
        return Ended(
            pid=pid,
            exit_code=exit_code,
            signal=number,
            timed_out=timed_out,
            lost=lost,
            duration_ms=elapsed_ms(start),
            stdout=stdout.finish(),
            stderr=stderr.finish(),
            stdout_bytes=stdout.total,
            stderr_bytes=stderr.total,
        )

    def close(self) -> None:
        """Ends the zygote; it kills its children when the socket closes, and is killed itself if it lingers."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            try:
                self._process.wait(timeout=ABORT_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._complaints is not None:
            self._complaints.close()
        self._process = self._control = self._complaints = None
        self._ready = False


def _converse(task_socket: socket.socket, deadline: float) -> tuple[int | None, list[str], bool]:
    """Waits for the end of a task.

    Returns:
        Its process id, the last words of the zygote about it (empty where the zygote is gone), and whether the
        deadline had passed.
    """
    pid: int | None = None
    pending = b""
    orders = [b"abort\n", b"kill\n"]
    timed_out = False
    while True:
        task_socket.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            received = task_socket.recv(256)
        except TimeoutError:
            timed_out = True
            if not orders:
                return pid, [], timed_out
            with contextlib.suppress(OSError):
                task_socket.sendall(orders.pop(0))
            deadline = time.monotonic() + (ABORT_PATIENCE_SECONDS if orders else START_TIMEOUT_SECONDS)
            continue
        except OSError:
            received = b""
        if not received:
            return pid, [], timed_out
        pending += received
        *lines, pending = pending.split(b"\n")
        for line in lines:
            words = line.decode().split()
            if words[0] == "started":
                pid = int(words[1])
            else:
                return pid, words, timed_out
