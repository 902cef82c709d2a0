"""Makes the runs of a script, each in its own copy of the working directory and with the same stdin."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from repro_audit.interpreter import Interpreter
from repro_audit.interpreters import interpreter_pair
from repro_audit.plan import Zygote
from repro_audit.records import Isolation, Mode
from repro_audit.script_launch import RecordedRun, run_recorded
from repro_audit.script_records import Remedy, Script, ScriptTask, Trace
from repro_audit.stdin_replay import StdinReplay
from repro_audit.working_copy import WorkingCopies

APART_SECONDS = 1.1
"""Between the beginnings of two runs that are compared: a seed taken from the clock, in whole seconds, then differs."""


@dataclass
class ScriptRuns:
    """Everything that a run of the script needs."""

    script: Script
    origin: Path
    copies: WorkingCopies | None
    """None where runs share the user's own working directory."""
    stdin: StdinReplay
    isolation: Isolation
    variables: dict[str, str]
    timeout_seconds: float
    scratch: Path
    apart_seconds: float = APART_SECONDS
    schedule: dict[str, tuple[int, ...]] | None = None
    """As the first run chose it."""
    _began: dict[Zygote, float] = field(default_factory=dict, init=False)
    _stack: ExitStack = field(default_factory=ExitStack, init=False)
    _pair: dict[Zygote, Interpreter] = field(default_factory=dict, init=False)

    def start(self, extra: Mapping[str, str] | None = None) -> dict[Zygote, Interpreter]:
        """Starts the interpreters, anew where there are some already.

        Args:
            extra: Variables that they are started with besides the environment's.
        """
        self._stack.close()
        self._pair = self._stack.enter_context(interpreter_pair(self.isolation, {**self.variables, **(extra or {})}))
        self.variables |= extra or {}
        return self._pair

    def interpreter(self, zygote: Zygote) -> Interpreter:
        """One of the interpreters."""
        return self._pair[zygote]

    def close(self) -> None:
        """Ends the interpreters and whatever still runs in them."""
        self._stack.close()

    @contextmanager
    def other_pair(
        self, variables: Mapping[str, str], *, fixed_addresses: bool = False
    ) -> Iterator[dict[Zygote, Interpreter]]:
        """Another pair of interpreters, started with further variables.

        Args:
            fixed_addresses: Lays runs out at the same addresses: each in a whole new interpreter, since after a fork
                memory lies where earlier tasks have left room.
        """
        isolation = Isolation.EXEC if fixed_addresses else self.isolation
        whole = {**self.variables, **variables}
        with interpreter_pair(isolation, whole, fixed_addresses=fixed_addresses) as pair:
            yield pair

    def make(
        self,
        name: str,
        zygote: Zygote,
        mode: Mode,
        folder: Path,
        *,
        remedies: tuple[Remedy, ...] = (),
        trace: Trace | None = None,
        pair: Mapping[Zygote, Interpreter] | None = None,
        timeout_factor: float = 1.0,
        conditions: Mapping[str, str] | None = None,
    ) -> RecordedRun:
        """Makes a run.

        Args:
            folder: Where its recording is to lie.
            timeout_factor: A traced run takes its time.
            conditions: What to run under; None where nothing is varied.
        """
        if self.copies is not None:
            self.copies.prepare()
        folder.mkdir(parents=True, exist_ok=True)
        directory = self.copies.path if self.copies is not None else self.origin
        executed = self.copies.inside(Path(self.script.path)) if self.copies is not None else Path(self.script.path)
        task = ScriptTask(
            run=name,
            script=self.script,
            executed_path=str(executed),
            working_directory=str(directory),
            copied_from=str(self.origin),
            mode=mode,
            folder=str(folder.absolute()),
            record_path=str(self.scratch / f"{name}.json"),
            schedule=self.schedule,
            remedies=remedies,
            trace=trace,
            conditions=None if conditions is None else dict(conditions),
        )
        others = [began for other, began in self._began.items() if other is not zygote]
        time.sleep(max(0.0, max(others, default=-self.apart_seconds) + self.apart_seconds - time.monotonic()))
        self._began[zygote] = time.monotonic()
        stdin = self.stdin.next_run()
        try:
            interpreter = (pair or self._pair)[zygote]
            made = run_recorded(interpreter, task, self.timeout_seconds * timeout_factor, stdin)
        finally:
            os.close(stdin)
            self.stdin.finish_run()
        if self.schedule is None and made.restart is None:
            self.schedule = made.recorded.recording.schedule or None
        return made
