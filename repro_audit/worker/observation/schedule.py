"""Decides when the whole state is digested: the first run by what it costs, the others as the first did."""

import time

ALWAYS = 2
"""The first occasions of each kind are always taken."""

SHARE = 0.02
"""Most of the run's time that looking at everything may take."""

FREE_SECONDS = 0.05
"""Taken whatever its share: short scripts are observed whole."""


class Schedule:
    """Ordinals, counted from 0, at which everything is looked at."""

    def __init__(self, prescribed: tuple[int, ...] | None) -> None:
        self._prescribed = None if prescribed is None else frozenset(prescribed)
        self._ordinal = -1
        self._began = time.perf_counter()
        self._spent = self._last = 0.0
        self.taken: list[int] = []

    def wants(self) -> bool:
        """Whether the occasion that has just come is to be taken."""
        self._ordinal += 1
        if self._prescribed is not None:
            wanted = self._ordinal in self._prescribed
        else:
            ahead = self._spent + self._last
            elapsed = time.perf_counter() - self._began
            wanted = self._ordinal < ALWAYS or ahead <= max(FREE_SECONDS, SHARE * elapsed)
        if wanted:
            self.taken.append(self._ordinal)
        return wanted

    def cost(self, seconds: float) -> None:
        """Tells what the occasion just taken cost."""
        self._last = seconds
        self._spent += seconds
