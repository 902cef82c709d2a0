"""A nest of data as facts, one a line."""

from collections.abc import Mapping
from typing import Any


def flattened(data: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """A nest as one mapping from dotted keys to text."""
    flat: dict[str, str] = {}
    for key, value in data.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            flat |= flattened(value, f"{name}.")
        elif isinstance(value, list | tuple):
            flat[name] = ", ".join(map(str, value))
        else:
            flat[name] = "" if value is None else str(value)
    return flat
