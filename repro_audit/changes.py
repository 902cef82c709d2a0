"""Which facts of two audits differ, and whether bits may depend on them."""

from collections.abc import Iterator, Mapping

import msgspec

from repro_audit.difference_records import Changed
from repro_audit.flattened import flattened
from repro_audit.records import Environment

_FREE = (
    "absent_devices",
    "git",
    "python.executable",
    "python.compiler",
    "packages.repro-audit",
    "packages.rich",
    "packages.PyYAML",
    "packages.msgspec",
    "packages.xxhash",
    "system.distribution",
    "system.memory_bytes",
    "system.release",
)
"""Facts of an environment that bits do not depend on: what only the auditing process uses, and what lies elsewhere."""


def environment_changes(first: Environment, second: Environment) -> tuple[Changed, ...]:
    """The facts that are others in the second environment."""
    return tuple(changes(_facts(first), _facts(second), _FREE))


def changes(first: Mapping[str, str], second: Mapping[str, str], free: tuple[str, ...]) -> Iterator[Changed]:
    """The facts that are others in the second.

    Args:
        free: Names, or their first parts, of facts that bits do not depend on.
    """
    for name in dict.fromkeys((*first, *second)):
        if first.get(name) != second.get(name):
            is_free = any(name == one or name.startswith(f"{one}.") for one in free)
            yield Changed(name=name, first=first.get(name), second=second.get(name), condition=not is_free)


def _facts(environment: Environment) -> dict[str, str]:
    data = msgspec.to_builtins(environment)
    data["devices"] = {
        device["name"]: {"description": device["description"], **device["details"]} for device in data["devices"]
    }
    return flattened(data)
