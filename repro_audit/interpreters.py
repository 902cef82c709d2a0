"""The two independent interpreters that runs are made in."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from repro_audit.cold_interpreter import ColdInterpreter
from repro_audit.interpreter import Interpreter
from repro_audit.plan import Zygote
from repro_audit.records import Isolation
from repro_audit.warm_interpreter import WarmInterpreter


@contextmanager
def interpreter_pair(
    isolation: Isolation, variables: Mapping[str, str], *, fixed_addresses: bool = False
) -> Iterator[dict[Zygote, Interpreter]]:
    """Both interpreters, warming up side by side, and closed whatever happens.

    Args:
        variables: The whole environment that they are started with.
        fixed_addresses: Lays both out at the same addresses, where the system allows that.
    """
    interpreters = {
        zygote: make_interpreter(isolation, zygote, variables, fixed_addresses=fixed_addresses) for zygote in Zygote
    }
    try:
        for interpreter in interpreters.values():
            interpreter.start()
        yield interpreters
    finally:
        for interpreter in interpreters.values():
            interpreter.close()


def make_interpreter(
    isolation: Isolation, zygote: Zygote, variables: Mapping[str, str], *, fixed_addresses: bool = False
) -> Interpreter:
    """One interpreter, not started yet.

    Args:
        variables: As for `interpreter_pair`.
        fixed_addresses: As for `interpreter_pair`.
    """
    if isolation is Isolation.FORK:
        return WarmInterpreter(zygote.value, variables, fixed_addresses=fixed_addresses)
    return ColdInterpreter(variables, fixed_addresses=fixed_addresses)
