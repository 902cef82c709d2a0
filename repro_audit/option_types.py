"""What options and keys of the configuration may say: each reads a word, and raises `ArgumentTypeError` for another."""

import argparse
import os
from dataclasses import dataclass

from repro_audit.errors import UsageError
from repro_audit.settings import parse_device

SEED_LIMIT = 2**32
"""NumPy's global generator takes no larger seed (https://numpy.org/doc/stable/reference/random/legacy.html)."""

ISOLATIONS = ("fork", "exec")

DEFAULT_ISOLATION = "fork" if hasattr(os, "fork") else "exec"


SELECTION_KEYS = ("workloads", "select")

_RUNNING_KEYS = ("devices", "steps", "seed", "timeout", "isolation", "cublas-workspace")

COMMAND_KEYS = {
    "run": (*SELECTION_KEYS, *_RUNNING_KEYS, "required-devices", "repeats", "budget", "output"),
    "inventory": (*SELECTION_KEYS, *_RUNNING_KEYS),
    "vary": (*SELECTION_KEYS, *_RUNNING_KEYS, "repeats", "output"),
    "script": ("repeats", "timeout", "budget", "isolation", "cublas-workspace", "output"),
}
"""The keys of the configuration that each command reads; a table of its name in a file is for it alone."""


@dataclass(frozen=True)
class Default:
    """The value of an option that was not given: the environment or the configuration file may have another."""

    value: object


def step_range(text: str) -> tuple[int, int]:
    """A range of steps, as ``A:B``."""
    first, colon, last = text.partition(":")
    if not colon or not first.isdecimal() or not last.isdecimal() or not 1 <= int(first) <= int(last):
        raise argparse.ArgumentTypeError(f"{text!r} is no range of steps; write A:B, as in 10:12")
    return int(first), int(last)


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def seed(text: str) -> int:
    """A seed that every generator takes."""
    if not text.isascii() or not text.isdigit() or int(text) >= SEED_LIMIT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to {SEED_LIMIT - 1}")
    return int(text)


def seconds(text: str) -> float:
    """A number of seconds."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.001 <= number <= 10_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.001 to 10000000")
    return number


def device(text: str) -> str:
    """The canonical name of a device."""
    try:
        return parse_device(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def day(text: str) -> str:
    """A day, as ``YYYY-MM-DD``."""
    import datetime  # only for whoever asks for a day

    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no day; write YYYY-MM-DD") from error
