"""Traces the ops of a part of a script: from one observation to another, or from one optimizer step to another."""

import os
from pathlib import Path

from repro_audit.script_records import Observation, Trace
from repro_audit.worker.observation.observer import Observer
from repro_audit.worker.trace import Tracer


class Tracing:
    """Starts and stops a tracer as a script passes the observations that its window names."""

    def __init__(self, trace: Trace, observer: Observer) -> None:
        self._trace = trace
        self._observer = observer
        self._owner = os.getpid()
        fetch = None if trace.fetch is None else (trace.fetch[0], Path(trace.fetch[1]))
        self._tracer = Tracer(
            Path(trace.path),
            module=trace.module,
            fetch=fetch,
            thorough=trace.thorough,
            shown=observer.paths.shown,
        )
        self._tracing = False

    def begin(self) -> None:
        """Called before the script's first line."""
        self._observer.on_observation = self._observed
        steps = self._trace.steps
        if (self._trace.first == 0) if steps is None else (steps[0] <= 1):
            self._start()

    def _observed(self, observation: Observation, count: int) -> None:
        if self._tracing:
            self._tracer.mark(f"{count - 1} {observation.point.value} {observation.name}")
        trace = self._trace
        if trace.steps is None:
            starts, ends = count == trace.first, trace.last is not None and count > trace.last
        else:
            starts, ends = self._observer.steps == trace.steps[0] - 1, self._observer.steps >= trace.steps[1]
        if self._tracing and ends:
            self._stop()
        elif not self._tracing and starts and not ends:
            self._start()

    def _start(self) -> None:
        self._tracing = True
        self._tracer.start()

    def _stop(self) -> None:
        self._tracing = False
        self._tracer.stop()

    def close(self) -> None:
        """Ends the trace, in the process that began it."""
        if os.getpid() != self._owner:
            return
        if self._tracing:
            self._stop()
        self._tracer.close()
