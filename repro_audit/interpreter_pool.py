"""Interpreters by how they are started: as many as the conditions that are read at the start of a process."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

from repro_audit.cores import usable_cores
from repro_audit.errors import LaunchError
from repro_audit.interpreter import Interpreter
from repro_audit.interpreters import make_interpreter
from repro_audit.plan import Zygote
from repro_audit.records import Isolation
from repro_audit.variations import Start


class InterpreterPool:
    """Starts an interpreter for each start that is asked for, and keeps it warm until closed."""

    def __init__(self, isolation: Isolation, variables: Mapping[str, str]) -> None:
        """Starts nothing yet.

        Args:
            variables: The environment that all of them have in common.
        """
        self._isolation = isolation
        self._variables = dict(variables)
        self._interpreters: dict[object, Interpreter] = {}

    def __enter__(self) -> "InterpreterPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def warm(self, starts: Iterable[Start]) -> None:
        """Warms both interpreters of each start up, as many at once as there are cores, and waits for them.

        Runs want a free machine. One that cannot be started is told by the first run that is to be made in it: what
        was gathered before must not be lost.
        """
        waiting = list(dict.fromkeys(self.interpreter(start, zygote) for start in starts for zygote in Zygote))
        at_once = max(usable_cores(), 1)
        while waiting:
            some, waiting = waiting[:at_once], waiting[at_once:]
            for begin in (*(one.start for one in some), *(one.await_ready for one in some)):
                with suppress(LaunchError):
                    begin()

    def interpreter(self, start: Start, zygote: Zygote) -> Interpreter:
        """The one of two interpreters that are started alike."""
        key = (start.key, zygote)
        if key not in self._interpreters:
            self._interpreters[key] = make_interpreter(
                Isolation.EXEC if start.cold else self._isolation,
                zygote,
                self._variables | dict(start.variables),
                fixed_addresses=start.fixed_addresses,
            )
        return self._interpreters[key]

    def close(self) -> None:
        """Ends them all, whatever still runs in them."""
        for interpreter in self._interpreters.values():
            interpreter.close()
        self._interpreters.clear()
