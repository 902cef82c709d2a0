"""Finds the op where two traces part: the first that was given the same and gave something else."""

import gc
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any

from repro_audit.trace_file import (
    EXTERNAL,
    MARK,
    OVERLAPPING,
    UNDIGESTED,
    UNINITIALISED,
    Block,
    Mark,
    OpRecord,
    TraceReader,
)

LOOK_AHEAD = 4096
"""Ops that are looked ahead where two traces do not execute the same."""

RESYNCHRONISED = 3
"""Ops in a row that have to be the same before two traces are in step again."""


class OriginKind(StrEnum):
    """How an op brought a difference into the run."""

    KERNEL = "kernel"
    """Equal inputs, other outputs."""
    UNINITIALISED = "uninitialised"
    """It read memory that nothing had been written to."""
    EXTERNAL_INPUT = "external_input"
    """An input differs that no traced op has made so."""
    OTHER_TENSOR = "other_tensor"
    """It is given another of the tensors that traced ops have made alike."""
    GENERATOR = "generator"
    """It draws, and the generator's state differed before."""
    ARGUMENTS = "arguments"
    """Something it was given besides tensors differs."""
    CONTROL_FLOW = "control_flow"
    """The runs execute other ops from here on."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """An op that brought a difference into the run."""

    kind: OriginKind
    first: OpRecord | None
    """In the first trace; None where only the second goes on."""
    second: OpRecord | None
    before: tuple[OpRecord, ...] = ()
    after: tuple[OpRecord, ...] = ()
    """Ops around it in the first trace."""
    mark: str = ""
    """The last mark before it."""

    @property
    def overlapping(self) -> bool:
        """Whether the op writes to a tensor whose elements share memory."""
        return self.first is not None and any(one.flags & OVERLAPPING for one in self.first.inputs)


@dataclass(frozen=True, kw_only=True)
class TraceComparison:
    """What two traces have in common, and where they part."""

    ops: int
    """Ops of the first trace that were compared."""
    differing: int
    """Ops of which something differs."""
    origins: tuple[Origin, ...]
    """The first few, in execution order."""
    origin_count: int

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return self.differing == 0 and not self.origin_count


@dataclass
class _Side:
    """One trace, record by record, with a look ahead."""

    reader: TraceReader
    blocks: Iterator[Block]
    waiting: deque[tuple[int, list[Any]]] = field(default_factory=deque)

    def fill(self, count: int) -> None:
        while len(self.waiting) < count:
            block = next(self.blocks, None)
            if block is None:
                return
            self.waiting += enumerate(self.reader.raw(block), block.start)

    def identity(self, position: int) -> tuple[str, str, str]:
        record = self.waiting[position][1]
        name = self.reader.name
        return (
            ("mark", name(record[1]), "") if record[0] == MARK else (name(record[1]), name(record[0]), name(record[2]))
        )

    def decoded(self, position: int = 0) -> OpRecord | Mark:
        return self.reader.decoded(*self.waiting[position])


def compare_traces(first: Path, second: Path, *, context: int = 3, limit: int = 5) -> TraceComparison:
    """Compares two traces op by op, in step by identity: module path, op and line.

    Blocks that are equal as they lie in the file are not decoded.

    Args:
        context: Ops to show before and after an origin.
        limit: Origins to show.

    Raises:
        EvidenceError: A file is no trace, or is damaged.
    """
    with _garbage_uncollected():
        return _Comparison(first, second, context, limit).run()


@contextmanager
def _garbage_uncollected() -> Iterator[None]:
    """Keeps Python from searching millions of records for cycles, which none of them is in: it takes twice as long."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Comparison:
    def __init__(self, first: Path, second: Path, context: int, limit: int) -> None:
        readers = TraceReader(first), TraceReader(second)
        self._a, self._b = (_Side(reader, reader.blocks()) for reader in readers)
        self._context, self._limit = context, limit
        self._before: deque[tuple[int, list[Any]]] = deque(maxlen=context)
        self._last_equal: Block | None = None
        self._mark = ""
        self._ops = self._differing = 0
        self._origins: list[Origin] = []
        self._seen: set[tuple[str, str, str, str]] = set()
        self._kernels: set[tuple[int, ...]] = set()
        self._count = 0

    def run(self) -> TraceComparison:
        a, b = self._a, self._b
        while True:
            if not a.waiting and not b.waiting and not self._skip_equal_blocks():
                break
            a.fill(1)
            b.fill(1)
            if not a.waiting or not b.waiting:
                if a.waiting or b.waiting:
                    self._control_flow()
                break
            if not self._in_step():
                self._control_flow()
                if not self._resynchronise():
                    break
                continue
            self._pair()
        return TraceComparison(
            ops=self._ops, differing=self._differing, origins=tuple(self._origins), origin_count=self._count
        )

    def _skip_equal_blocks(self) -> bool:
        """Passes over blocks that are equal; False where both traces have ended."""
        while True:
            one, other = next(self._a.blocks, None), next(self._b.blocks, None)
            if one is None and other is None:
                return False
            if one is not None and other is not None and (one.names, one.records) == (other.names, other.records):
                self._last_equal = one
                self._ops += one.count
                continue
            self._recall()
            for side, block in ((self._a, one), (self._b, other)):
                if block is not None:
                    side.waiting += enumerate(side.reader.raw(block), block.start)
            return True

    def _recall(self) -> None:
        """Takes what comes before a difference from the last block that was passed over."""
        if self._last_equal is None:
            return
        records = list(enumerate(self._a.reader.raw(self._last_equal), self._last_equal.start))
        self._last_equal = None
        for _, record in records:
            if record[0] == MARK:
                self._mark = self._a.reader.name(record[1])
        self._before.extend(one for one in records[-2 * self._context - 8 :] if one[1][0] != MARK)

    def _in_step(self) -> bool:
        one, other = self._a.waiting[0][1], self._b.waiting[0][1]
        if one == other and self._a.reader.same_names(self._b.reader):
            return True
        return self._a.identity(0) == self._b.identity(0)

    def _pair(self) -> None:
        """Compares two ops of the same identity, and steps on."""
        first, second = self._a.waiting[0][1], self._b.waiting[0][1]
        if first[0] == MARK:
            self._mark = self._a.reader.name(first[1])
        else:
            self._ops += 1
            same_names = self._a.reader.same_names(self._b.reader)
            if first == second and same_names:
                pass
            elif same_names and self._differing and (_passes_on(first, second) or self._known(first, second)):
                self._differing += 1
            else:
                one, other = self._a.decoded(), self._b.decoded()
                assert isinstance(one, OpRecord) and isinstance(other, OpRecord)
                kind = self._judge(one, other)
                if kind is not None:
                    self._add(kind, one, other)
                if kind is OriginKind.KERNEL:
                    self._kernels.add(tuple(first[:3]))
            self._before.append(self._a.waiting[0])
        self._a.waiting.popleft()
        self._b.waiting.popleft()

    def _known(self, first: list[Any], second: list[Any]) -> bool:
        """Whether it is an origin that has been counted, once more."""
        return tuple(first[:3]) in self._kernels and first[3:6] == second[3:6]

    def _judge(self, one: OpRecord, other: OpRecord) -> OriginKind | None:
        """What an op has to do with the difference; None where it passes it on, or has none."""
        inputs = differing_tensors(one.inputs, other.inputs)
        outputs = differing_tensors(one.outputs, other.outputs)
        arguments = one.arguments != other.arguments
        generator = one.generator != other.generator
        if not (inputs or outputs or arguments or generator):
            return None
        first = not self._differing
        self._differing += 1
        read = [one.inputs[n] for n in range(len(one.inputs)) if one.inputs[n].flags & UNINITIALISED]
        if generator and not inputs and not arguments:
            return OriginKind.GENERATOR if first or outputs else None
        if not inputs and not arguments:
            if not outputs or any(tensor.flags & UNDIGESTED for tensor in one.inputs):
                return None  # of an input without a digest nobody knows whether it was equal
            return OriginKind.UNINITIALISED if read else OriginKind.KERNEL
        if inputs and all(n < len(one.inputs) and one.inputs[n].flags & UNINITIALISED for n in inputs):
            return OriginKind.UNINITIALISED
        if inputs and all(n < len(one.inputs) and one.inputs[n].flags & EXTERNAL for n in inputs):
            return OriginKind.EXTERNAL_INPUT
        if first:
            return OriginKind.ARGUMENTS if arguments else OriginKind.OTHER_TENSOR
        return None

    def _add(self, kind: OriginKind, one: OpRecord | None, other: OpRecord | None) -> None:
        there = one or other
        assert there is not None
        key = kind.value, *there.identity
        if key in self._seen:
            return
        self._seen.add(key)
        self._count += 1
        if len(self._origins) >= self._limit:
            return
        self._a.fill(self._context + 1)
        after = [self._a.decoded(n) for n in range(min(self._context + 4, len(self._a.waiting)))]
        before = [self._a.reader.decoded(*record) for record in self._before]
        self._origins.append(
            Origin(
                kind=kind,
                first=one,
                second=other,
                before=tuple(record for record in before if isinstance(record, OpRecord))[-self._context :],
                after=tuple(
                    record
                    for record in after
                    if isinstance(record, OpRecord) and (one is None or record.sequence != one.sequence)
                )[: self._context],
                mark=self._mark,
            )
        )

    # ------------------------------------------------------------------ other ops

    def _control_flow(self) -> None:
        one = self._a.decoded() if self._a.waiting else None
        other = self._b.decoded() if self._b.waiting else None
        first = one if isinstance(one, OpRecord) else self._next_op(self._a)
        second = other if isinstance(other, OpRecord) else self._next_op(self._b)
        if first is not None or second is not None:
            self._add(OriginKind.CONTROL_FLOW, first, second)

    def _next_op(self, side: _Side) -> OpRecord | None:
        side.fill(16)
        decoded = (side.decoded(n) for n in range(min(16, len(side.waiting))))
        return next((record for record in decoded if isinstance(record, OpRecord)), None)

    def _resynchronise(self) -> bool:
        """Steps on to where both execute the same again, skipping as little as possible; False where they never do."""
        a, b = self._a, self._b
        a.fill(LOOK_AHEAD)
        b.fill(LOOK_AHEAD)
        ours = [a.identity(n) for n in range(min(LOOK_AHEAD, len(a.waiting)))]
        theirs = [b.identity(n) for n in range(min(LOOK_AHEAD, len(b.waiting)))]
        places: dict[tuple[Any, ...], list[int]] = {}
        for n in range(len(theirs) - RESYNCHRONISED + 1):
            places.setdefault(tuple(theirs[n : n + RESYNCHRONISED]), []).append(n)
        best: tuple[int, int] | None = None
        for n in range(len(ours) - RESYNCHRONISED + 1):
            if best is not None and n >= sum(best):
                break
            for m in islice(places.get(tuple(ours[n : n + RESYNCHRONISED]), ()), 1):
                if (n or m) and (best is None or n + m < sum(best)):
                    best = n, m
        if best is None:
            return False
        self._differing += 1
        for _ in range(best[0]):
            a.waiting.popleft()
        for _ in range(best[1]):
            b.waiting.popleft()
        return True


def _passes_on(first: list[Any], second: list[Any]) -> bool:
    """Whether an op only passes a difference on: an input differs that a traced op had made. Reads no names."""
    ours, theirs = first[5], second[5]
    if ours == theirs or first[3] != second[3] or len(ours) != len(theirs):
        return False
    return any(ours[n] != theirs[n] and not ours[n + 1] & (EXTERNAL | UNINITIALISED) for n in range(1, len(ours), 3))


def differing_tensors(first: tuple[Any, ...], second: tuple[Any, ...]) -> list[int]:
    """Positions at which two ops took, or gave, something else; a tensor without a digest is passed over."""
    positions = range(max(len(first), len(second)))
    return [
        n
        for n in positions
        if n >= len(first)
        or n >= len(second)
        or first[n].kind != second[n].kind
        or (first[n].digest and second[n].digest and first[n].digest != second[n].digest)
    ]
