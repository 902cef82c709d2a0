"""Builds records for tests: repeats from plain leaf values, and runs of every outcome."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from repro_audit.digests import state_digest
from repro_audit.interpreter import Ended
from repro_audit.records import (
    Alert,
    Breach,
    Completed,
    Failed,
    FailureKind,
    Loss,
    Mode,
    Phase,
    Refused,
    Repeat,
    Role,
    Run,
    State,
    States,
)

ROLES = {
    "loss": Role.LOSS,
    "model/weight": Role.PARAMETER,
    "model/weight.grad": Role.GRADIENT,
    "model/running_mean": Role.BUFFER,
    "optimizer/state/0/momentum": Role.OPTIMIZER,
    "extra": Role.VALUE,
    "rng/torch": Role.RNG,
}

LEAVES = dict.fromkeys(ROLES, 0)


def digest(value: object) -> str:
    return f"sha256:{hashlib.sha256(repr(value).encode()).hexdigest()}"


def loss(value: object) -> Loss:
    return Loss(text=str(value), dtype="float32", bits=f"0x{abs(hash(value)):08x}", finite=value != "nan")


class Book:
    """Collects the states that the repeats it builds refer to."""

    def __init__(self) -> None:
        self.states: States = {}

    def repeat(self, *steps: Mapping[str, object]) -> Repeat:
        """A repeat whose steps, setup first, hold these leaf values; step 0 never holds a loss."""
        return Repeat(states=tuple(self._state(number, leaves) for number, leaves in enumerate(steps)))

    def _state(self, number: int, values: Mapping[str, object]) -> str:
        leaves = {leaf: digest(value) for leaf, value in values.items() if number or leaf != "loss"}
        key = state_digest(leaves)
        self.states[key] = State(loss=loss(values.get("loss", 0)) if number else None, leaves=leaves)
        return key

    def completed(self, *repeats: Sequence[Mapping[str, object]]) -> Completed:
        return Completed(repeats=tuple(self.repeat(*steps) for steps in repeats))


def run(name: str, outcome: Completed | Refused | Failed, **fields: object) -> Run:
    mode = Mode(name) if name in list(Mode) else Mode.STRICT
    repeats = 2 if name in ("strict-a", "confirm-b") else 1
    return Run(name=name, mode=mode, repeats=repeats, outcome=outcome, **fields)


def alert(op: str = "put_", **fields: object) -> Alert:
    defaults: dict[str, object] = {
        "message": f"{op} does not have a deterministic implementation",
        "phase": Phase.FORWARD,
        "step": 1,
        "count": 3,
        "location": None,
        "forward_location": None,
    }
    return Alert(op=op, **{**defaults, **fields})


def refused(op: str = "put_") -> Refused:
    return Refused(alert=alert(op), repeat=0, detail="RuntimeError")


def failed(kind: FailureKind = FailureKind.EXCEPTION) -> Failed:
    return Failed(kind=kind, detail="ValueError: no")


def breach() -> Breach:
    return Breach(setting="deterministic_algorithms", expected="True", found="False", repeat=0, step=1, location=None)


def ended(**fields: object) -> Ended:
    defaults: dict[str, object] = {
        "pid": 1,
        "exit_code": 0,
        "signal": None,
        "timed_out": False,
        "lost": "",
        "duration_ms": 5,
        "stdout": b"",
        "stderr": b"last words\n",
        "stdout_bytes": 0,
        "stderr_bytes": 11,
    }
    return Ended(**{**defaults, **fields})


def digest_of_file(path: Path) -> str:
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
