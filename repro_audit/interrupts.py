"""The signals that ask an audit to stop: all of them leave what was gathered."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Ctrl-C, a plain `kill`, and a terminal that was closed."""


def raise_on_signals() -> None:
    """Has every one of them raise `KeyboardInterrupt`, as Ctrl-C does."""
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Keeps a second signal from costing the evidence that the first one left."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
