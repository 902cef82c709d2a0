"""A whole new interpreter for every task: slow, and nothing is shared but the machine."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping

import msgspec

from repro_audit.errors import LaunchError
from repro_audit.interpreter import ABORT_PATIENCE_SECONDS, Ended, elapsed_ms, worker_command
from repro_audit.pump import Pump
from repro_audit.tasks import Task


class ColdInterpreter:
    """Starts a whole new interpreter for every task."""

    def __init__(self, environment: Mapping[str, str], *, fixed_addresses: bool = False) -> None:
        self._fixed_addresses = fixed_addresses
        self._environment = dict(environment)
        self._running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Nothing to warm up."""

    def await_ready(self) -> None:
        """Nothing to wait for."""

    def perform(self, task: Task, timeout_seconds: float, stdin: int | None = None) -> Ended:
        """Starts an interpreter for the task and waits for its end."""
        start = time.monotonic()
        try:
            process = subprocess.Popen(
                worker_command("once", msgspec.json.encode(task).decode(), fixed_addresses=self._fixed_addresses),
                env=self._environment,
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise LaunchError(f"cannot start {sys.executable}: {error}") from error
        self._running = process
        assert process.stdout is not None and process.stderr is not None
        stdout, stderr = Pump(os.dup(process.stdout.fileno())), Pump(os.dup(process.stderr.fileno()))
        process.stdout.close()
        process.stderr.close()
        timed_out = False
        try:
            process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            timed_out = True
            process.send_signal(signal.SIGABRT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(ABORT_PATIENCE_SECONDS)
        self.close()
        code = process.returncode
        return Ended(
            pid=process.pid,
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            timed_out=timed_out,
            lost="",
            duration_ms=elapsed_ms(start),
            stdout=stdout.finish(),
            stderr=stderr.finish(),
            stdout_bytes=stdout.total,
            stderr_bytes=stderr.total,
        )

    def close(self) -> None:
        """Kills the running task with all of its process group."""
        if self._running is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._running.pid, signal.SIGKILL)
        self._running.wait()
        self._running = None
