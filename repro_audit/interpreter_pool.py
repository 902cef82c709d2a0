"""Interpreters by how they are started: as many as the conditions that are read at the start of a process."""

from collections.abc import Iterable, Mapping

from repro_audit.cold_interpreter import ColdInterpreter
from repro_audit.interpreter import Interpreter
from repro_audit.plan import Zygote
from repro_audit.records import Isolation
from repro_audit.system import usable_cores
from repro_audit.variations import Start
from repro_audit.warm_interpreter import WarmInterpreter


class InterpreterPool:
    """Starts an interpreter for each start that is asked for, and keeps it warm until closed."""

    def __init__(self, isolation: Isolation, variables: Mapping[str, str]) -> None:
        """Args:
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

        Runs want a free machine.

        Raises:
            LaunchError: One cannot be started.
        """
        waiting = list(dict.fromkeys(self.interpreter(start, zygote) for start in starts for zygote in Zygote))
        at_once = max(usable_cores(), 1)
        while waiting:
            some, waiting = waiting[:at_once], waiting[at_once:]
            for interpreter in some:
                interpreter.start()
            for interpreter in some:
                interpreter.await_ready()

    def interpreter(self, start: Start, zygote: Zygote) -> Interpreter:
        """The one of two interpreters that are started alike."""
        key = (start.key, zygote)
        if key not in self._interpreters:
            variables = self._variables | dict(start.variables)
            self._interpreters[key] = (
                WarmInterpreter(zygote.value, variables, fixed_addresses=start.fixed_addresses)
                if self._isolation is Isolation.FORK and not start.cold
                else ColdInterpreter(variables, fixed_addresses=start.fixed_addresses)
            )
        return self._interpreters[key]

    def close(self) -> None:
        """Ends them all, whatever still runs in them."""
        for interpreter in self._interpreters.values():
            interpreter.close()
        self._interpreters.clear()
