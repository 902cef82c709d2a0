"""Holds fixed what the script itself asks of the clock and of its process, to test whether a divergence comes from it.

Only calls from the user's own lines get fixed answers: libraries wait, log and name files by the real ones. The lines
that asked are remarked, each once; so are those that draw from the global generators of Python and NumPy.
"""

import datetime
import functools
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from repro_audit.script_records import CLOCK, DRAWN, PROCESS, Point
from repro_audit.worker.observation.observer import Observer
from repro_audit.worker.source_lines import line_of_stack

_START_SECONDS = 1_700_000_000
_TICK_NANOSECONDS = 1_000_000
"""How much later it is each time the script asks, so that a loop that waits for a time comes to its end."""

_PROCESS_ID = 4242

_CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")


class _Asked:
    """Who asked, and how often."""

    def __init__(self, observer: Observer | None, start_seconds: int = _START_SECONDS) -> None:
        self._observer = observer
        self._start_seconds = start_seconds
        self._lines: set[tuple[str, str]] = set()
        self._ticks = 0

    def by_user(self, frame: FrameType, name: str, function: str) -> bool:
        """Whether the caller is a line of the user's own."""
        line = line_of_stack(frame)
        if line is None or line.path != frame.f_code.co_filename:
            return False
        key = name, f"{line.path}:{line.line}"
        if self._observer is not None and key not in self._lines:
            self._lines.add(key)
            with self._observer.guarded() as observing:
                if observing:
                    self._observer.remark(Point.SEED, name, frame, {"function": function})
        return True

    def nanoseconds(self) -> int:
        """A time, a tick later than the last."""
        self._ticks += 1
        return self._start_seconds * 10**9 + self._ticks * _TICK_NANOSECONDS

    def seconds(self) -> float:
        """The same in seconds."""
        return self.nanoseconds() / 10**9


def fix_clock(observer: Observer | None = None, start_seconds: int = _START_SECONDS) -> None:
    """Has every clock that the user's lines read show the same in every run.

    Args:
        observer: Remarks who asks; None where nobody wants to know.
        start_seconds: What the clocks show at first, in seconds since the epoch.
    """
    asked = _Asked(observer, start_seconds)
    for name in _CLOCKS:
        _replace(time, name, asked.seconds, asked, CLOCK)
        _replace(time, f"{name}_ns", asked.nanoseconds, asked, CLOCK)

    class Datetime(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            if asked.by_user(sys._getframe(1), CLOCK, "datetime.now"):
                return cls.fromtimestamp(asked.seconds(), tz)
            return super().now(tz)

        @classmethod
        def today(cls) -> Any:
            return cls.now()

        @classmethod
        def utcnow(cls) -> Any:
            if asked.by_user(sys._getframe(1), CLOCK, "datetime.utcnow"):
                return cls.fromtimestamp(asked.seconds(), datetime.UTC).replace(tzinfo=None)
            return super().now(datetime.UTC).replace(tzinfo=None)

    Datetime.__name__ = Datetime.__qualname__ = "datetime"
    datetime.datetime = Datetime  # type: ignore[misc]


def fix_process(observer: Observer | None = None) -> None:
    """Has the process and its parent have the same numbers in every run, as far as the user's lines ask for them.

    Args:
        observer: As for `fix_clock`.
    """
    asked = _Asked(observer)
    for owner, name in ((os, "getpid"), (os, "getppid"), (threading, "get_native_id"), (threading, "get_ident")):
        _replace(owner, name, lambda: _PROCESS_ID, asked, PROCESS)


def remark_draws(observer: Observer) -> None:
    """Remarks the user's lines that draw from the global generators of Python and NumPy."""
    asked = _Asked(observer)
    _drawing(asked, "python", random, vars(random)["_inst"])
    numpy: Any = sys.modules.get("numpy.random")
    if numpy is not None:
        _drawing(asked, "numpy", numpy, getattr(numpy.get_state, "__self__", None))


def _drawing(asked: _Asked, kind: str, owner: Any, generator: Any) -> None:
    for name in dir(owner):
        original = getattr(owner, name)
        if getattr(original, "__self__", None) is not generator or "seed" in name or "state" in name:
            continue

        def drawn(*arguments: Any, _original: Any = original, _name: str = name, **keywords: Any) -> Any:
            asked.by_user(sys._getframe(1), DRAWN[kind], f"{owner.__name__}.{_name}")
            return _original(*arguments, **keywords)

        setattr(owner, name, functools.wraps(original)(drawn))


def _replace(owner: Any, name: str, fixed: Callable[[], Any], asked: _Asked, kind: str) -> None:
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def replaced() -> Any:
        if asked.by_user(sys._getframe(1), kind, f"{owner.__name__}.{name}"):
            return fixed()
        return original()

    setattr(owner, name, replaced)
