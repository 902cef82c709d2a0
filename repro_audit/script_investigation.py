"""After two runs of a script have parted: traced runs find the op, runs with a condition held fixed the cause."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from repro_audit.factors import FIXED_HASH_SEED, ONE_THREAD, pairs_needed
from repro_audit.interpreter import Interpreter
from repro_audit.launch import read_measurement
from repro_audit.plan import Zygote
from repro_audit.recording import Recorded, source_line
from repro_audit.recording_compare import compare_recordings
from repro_audit.records import Location, MeasureTask, Mode, SourceLine
from repro_audit.report.progress import Progress
from repro_audit.script_causes import own_generators, seedings
from repro_audit.script_hazards import TRACED_FACTOR
from repro_audit.script_location import Fetched, locate_origin
from repro_audit.script_records import (
    CLOCK,
    DRAWN,
    OWN_GENERATOR,
    PROCESS,
    Cause,
    CauseKind,
    Observation,
    Point,
    Remedy,
    ScriptDivergence,
    Trace,
)
from repro_audit.script_runs import ScriptRuns

WHOLE_SECONDS = 20.0
"""A script whose run takes no longer is traced from its first line; else from where the runs still agreed."""

_OWNERS = {"python": "Python's", "numpy": "NumPy's", "torch": "PyTorch's"}

PAIRS = 2
"""Pairs of runs that have to agree at least under a fixed condition before it is called the cause."""


STARTS: dict[Remedy, tuple[Mapping[str, str], bool]] = {
    Remedy.HASH_SEED: ({"PYTHONHASHSEED": FIXED_HASH_SEED}, False),
    Remedy.THREADS: (ONE_THREAD, False),
    Remedy.ADDRESSES: ({"PYTHONHASHSEED": FIXED_HASH_SEED}, True),
}
"""Remedies that interpreters are started with: variables, and whether the address layout is fixed."""


@dataclass(kw_only=True)
class Investigation:
    """What is known of a divergence, and how to learn more."""

    runs: ScriptRuns
    progress: Progress
    deadline: float
    divergence: ScriptDivergence
    first: Recorded
    second: Recorded
    known: tuple[Cause, ...]
    differing: int = 1
    compared: int = 1
    """How many runs differed from the first, and how many were compared with it."""
    window: Trace | None = None
    """What the user asked to trace."""
    tests: list[str] = field(default_factory=list)
    _number: int = 0

    # ------------------------------------------------------------------ the op

    def locate(self) -> Location | None:
        """Traces a pair of runs, from where the untraced ones still agreed, and compares op by op."""
        with tempfile.TemporaryDirectory(prefix="repro-audit-trace-", ignore_cleanup_errors=True) as folder:
            scratch = Path(folder)
            location: Location | None = None
            for first, last, words in self._windows():
                if time.monotonic() > self.deadline:
                    break
                traces = [self._traced(scratch, zygote, first, last, None) for zygote in (Zygote.A, Zygote.B)]
                location = locate_origin(traces[0], traces[1], words)
                if location is not None and location.kind == "kernel":
                    # Another thread may have written to an input unseen: only memory read anew proves inputs equal.
                    traces = [self._traced(scratch, zygote, first, last, None, thorough=True) for zygote in Zygote]
                    again = locate_origin(traces[0], traces[1], f"{words}, all memory read at every use")
                    location = again if again is not None and not again.agreed else location
                if location is not None and not location.agreed:
                    if location.first is not None and location.second is not None:
                        location = self._measured(scratch, location, first, last)
                    break
            return location

    def _windows(self) -> Iterator[tuple[int, int | None, str]]:
        """Parts of the run to trace, one after the other while the traced pair agrees."""
        if self.window is not None and self.window.steps is not None:
            yield 0, None, f"steps {self.window.steps[0]} to {self.window.steps[1]}"
            return
        divergence = self.divergence
        start = divergence.last_equal + 1 if divergence.stream == "main" else 0
        end = divergence.position if divergence.stream == "main" else None
        if end is not None and divergence.point in (Point.INPUT, Point.BATCH):
            end += 1  # the op that takes it comes after
        seconds = float(self.first.recording.ended or 0) - float(self.first.recording.started or 0)
        if seconds > WHOLE_SECONDS and start:
            yield start, end, f"observations {start} to {end}"
        yield (
            0,
            end,
            f"from the first line to observation {end}" if end is not None else "the whole run",
        )

    def _traced(
        self,
        scratch: Path,
        zygote: Zygote,
        first: int,
        last: int | None,
        fetch: tuple[int, str] | None,
        *,
        thorough: bool = False,
    ) -> Path:
        self._number += 1
        name = f"trace-{zygote.value}{self._number}"
        self.progress.stage(name)
        path = scratch / f"{name}.trace"
        steps, module = (self.window.steps, self.window.module) if self.window is not None else (None, None)
        trace = Trace(
            path=str(path), first=first, last=last, steps=steps, module=module, fetch=fetch, thorough=thorough
        )
        self.runs.make(name, zygote, Mode.STRICT, scratch / name, trace=trace, timeout_factor=TRACED_FACTOR)
        return path

    def _measured(self, scratch: Path, location: Location, first: int, last: int | None) -> Location:
        """Runs once more in each interpreter, to store what the op gave, and measures how far that is apart."""
        fetched: list[Fetched] = []
        for zygote, op in ((Zygote.A, location.first), (Zygote.B, location.second)):
            assert op is not None
            path = scratch / f"value-{zygote.value}.pt"
            self._traced(scratch, zygote, first, last, (op.sequence, str(path)))
            fetched.append(Fetched(path=path, there=path.exists()))
        if not all(one.there for one in fetched):
            return msgspec.structs.replace(location, distance_note="a second traced pair did not reach that op")
        task = MeasureTask(
            first_path=str(fetched[0].path),
            second_path=str(fetched[1].path),
            record_path=str(scratch / "distance.json"),
        )
        measurement = read_measurement(self.runs.interpreter(Zygote.B), task, self.runs.timeout_seconds)
        if measurement is None:
            return msgspec.structs.replace(location, distance_note="the distance could not be measured")
        if measurement.distance is None:
            return msgspec.structs.replace(location, distance_note="a second traced pair agreed at that op")
        return msgspec.structs.replace(location, distance=measurement.distance)

    # ------------------------------------------------------------------ the cause

    def test(self, location: Location | None) -> list[Cause]:
        """Holds conditions fixed, one after the other, until runs agree; and says what the trace shows by itself."""
        causes = list(_shown_by_trace(location))
        kinds = {cause.kind for cause in (*self.known, *causes)}
        if kinds & {
            CauseKind.KERNEL,
            CauseKind.OVERLAP,
            CauseKind.UNINITIALISED,
            CauseKind.SEED_DIFFERS,
            CauseKind.FILE,
            CauseKind.LOADER_ORDER,
        }:
            return causes
        tests: tuple[tuple[Remedy, str, Callable[[Location | None, _Asked], Iterator[Cause]]], ...] = (
            (Remedy.SEEDED, "the global generators seeded before the first line", self._unseeded),
            (Remedy.ENTROPY, "the operating system's entropy fixed as well", self._entropy),
            (Remedy.HASH_SEED, f"PYTHONHASHSEED={FIXED_HASH_SEED}", self._hash_order),
            (Remedy.CLOCK, "seeds, entropy and the clock fixed", self._clock),
            (Remedy.PROCESS, "seeds, entropy, the clock and the process id fixed", self._process),
            (Remedy.THREADS, "one CPU thread", self._threads),
            (Remedy.ADDRESSES, "the address layout fixed, and PYTHONHASHSEED with it", self._addresses),
        )
        remedies: tuple[Remedy, ...] = ()
        for remedy, words, find in tests:
            if time.monotonic() > self.deadline:
                self.tests.append(f"with {words}: not tested, the time for it was over")
                break
            if remedy in STARTS:
                asked = self._asked_when_started(*STARTS[remedy])
            else:
                remedies += (remedy,)
                asked = self._asked_when_agreeing(remedies, None)
            if asked is None:
                self.tests.append(f"with {words}: the runs still differ")
                continue
            again = self._differing_again()
            if not again:
                self.tests.append(
                    f"with {words}: {self.pairs} pairs of runs agree, but so do {2 * self.pairs} with nothing fixed: "
                    "the divergence is too rare to tell"
                )
                continue
            self.tests.append(
                f"with {words}: {self.pairs} of {self.pairs} pairs of runs agree; with nothing fixed "
                f"pair {again} differs again"
            )
            found = list(find(location, asked))
            kinds = {cause.kind for cause in found}
            return [*found, *(cause for cause in causes if cause.kind not in kinds)]
        return causes

    @property
    def pairs(self) -> int:
        """How many pairs have to agree before that is no luck."""
        return PAIRS if self.differing >= self.compared else pairs_needed(self.differing, self.compared)

    def _asked_when_started(self, variables: Mapping[str, str], fixed_addresses: bool) -> "_Asked | None":
        seed = self.runs.variables.get("PYTHONHASHSEED", "random")
        ours = {**self.runs.variables, **({"PYTHONHASHSEED": FIXED_HASH_SEED} if seed != "random" else {})}
        if not fixed_addresses and variables.items() <= ours.items():
            return None  # fixed already
        with self.runs.other_pair(variables, fixed_addresses=fixed_addresses) as pair:
            return self._asked_when_agreeing((), pair)

    def _differing_again(self) -> int:
        """Which pair of runs with nothing fixed is the first that differs; 0 where none does."""
        for number in range(1, 2 * self.pairs + 1):
            if self._pair_asked((), None) is None:
                return number
        return 0

    def _asked_when_agreeing(
        self, remedies: tuple[Remedy, ...], pair: Mapping[Zygote, Interpreter] | None
    ) -> "_Asked | None":
        """What the script asked for where pairs of runs agree under a condition; None where they do not."""
        asked: _Asked | None = None
        for _ in range(self.pairs):
            asked = self._pair_asked(remedies, pair)
            if asked is None:
                return None
        return asked

    def _pair_asked(self, remedies: tuple[Remedy, ...], pair: Mapping[Zygote, Interpreter] | None) -> "_Asked | None":
        recorded: list[Recorded] = []
        with tempfile.TemporaryDirectory(prefix="repro-audit-test-", ignore_cleanup_errors=True) as folder:
            for zygote in (Zygote.A, Zygote.B):
                self._number += 1
                name = f"test-{zygote.value}{self._number:04d}"  # of one length: addresses may depend on it
                self.progress.stage(name)
                made = self.runs.make(
                    name,
                    zygote,
                    Mode.STRICT,
                    Path(folder) / name,
                    remedies=remedies,
                    pair=pair,
                )
                recorded.append(made.recorded)
            comparison = compare_recordings(recorded[0], recorded[1])
            if comparison.divergence is not None or not comparison.results:
                return None
            return [remark for _, remark in recorded[0].remarks()]

    def _unseeded(self, location: Location | None, asked: "_Asked") -> Iterator[Cause]:
        proof = (
            f"{self.pairs} pairs of runs agree once the audit seeds Python's, NumPy's and PyTorch's generators first"
        )
        seeds = {remark.name: remark for _, remark in reversed(seedings(self.first))}
        lines = {one.name: one.line for one in reversed(asked)}
        first_drawn = {name: source_line(lines[words]) for name, words in DRAWN.items() if words in lines}
        if location is not None and location.kind == "generator":
            first_drawn = {"torch": location.line}  # and the first that differs
        never = {name: line for name, line in first_drawn.items() if name not in seeds}
        if not seeds:
            line = next(iter(first_drawn.values()), None) or self.divergence.line
            statement, proof = "no generator is seeded by the script", f"{proof}; no call that seeds one was seen"
            yield Cause(kind=CauseKind.UNSEEDED, statement=statement, proof=proof, line=line)
        for name, line in never.items() if seeds else ():
            yield Cause(
                kind=CauseKind.UNSEEDED,
                statement=f"{_OWNERS[name]} generator is drawn from and never seeded (seeded: {', '.join(seeds)})",
                proof=proof,
                line=line,
            )
        if seeds and not never:
            late = next((name for name in first_drawn if name in seeds), next(iter(seeds)))
            drawn = first_drawn.get(late)
            yield Cause(
                kind=CauseKind.SEEDED_LATE,
                statement=f"{_OWNERS[late]} generator is drawn from before it is seeded"
                + (f": first at {drawn.path}:{drawn.line}" if drawn is not None else ""),
                proof=proof,
                line=source_line(seeds[late].line),
            )

    def _entropy(self, location: Location | None, asked: "_Asked") -> Iterator[Cause]:
        proof = f"{self.pairs} pairs of runs agree once the operating system's entropy is replaced by a fixed sequence"
        # What `torch.Generator.seed` takes can only be seen where it is fixed.
        remarks = [*own_generators(self.first), *(one for one in asked if one.name == OWN_GENERATOR)]
        for remark in list({remark.line: remark for remark in remarks}.values())[:3]:
            made = remark.name == OWN_GENERATOR
            what = remark.context.get("function", remark.name)
            yield Cause(
                kind=CauseKind.OWN_GENERATOR if made else CauseKind.ENTROPY_CALL,
                statement=f"{what} makes a generator without a seed, which no global seed reaches"
                if made
                else "the script takes bytes from the operating system's entropy",
                proof=proof,
                line=source_line(remark.line),
            )
        if not remarks:
            yield Cause(
                kind=CauseKind.ENTROPY_CALL,
                statement="a value comes from the operating system's entropy",
                proof=proof,
                line=_line(location) or self.divergence.line,
            )

    def _hash_order(self, location: Location | None, _: "_Asked") -> Iterator[Cause]:
        yield Cause(
            kind=CauseKind.HASH_ORDER,
            statement="the result depends on string hashes, which Python salts at each start: on the order of a set, "
            "or on hash(); sort before iterating",
            proof=f"{self.pairs} pairs of runs agree with PYTHONHASHSEED={FIXED_HASH_SEED} set before the start",
            line=_line(location) or self.divergence.line,
        )

    def _clock(self, location: Location | None, asked: "_Asked") -> Iterator[Cause]:
        proof = f"{self.pairs} pairs of runs agree once every clock that the script reads shows the same in both"
        return self._surroundings(location, asked, CauseKind.CLOCK, CLOCK, "the clock", proof)

    def _process(self, location: Location | None, asked: "_Asked") -> Iterator[Cause]:
        proof = f"{self.pairs} pairs of runs agree once the script is told the same process id in both"
        return self._surroundings(location, asked, CauseKind.PROCESS, PROCESS, "the process id", proof)

    def _threads(self, location: Location | None, _: "_Asked") -> Iterator[Cause]:
        yield Cause(
            kind=CauseKind.THREADS,
            statement="the result depends on the order in which CPU threads work",
            proof=f"{self.pairs} pairs of runs agree with OMP_NUM_THREADS=1 set before the start",
            line=_line(location) or self.divergence.line,
        )

    def _addresses(self, location: Location | None, _: "_Asked") -> Iterator[Cause]:
        yield Cause(
            kind=CauseKind.ADDRESSES,
            statement="the result depends on addresses of memory: on id(), or on the hash and order of objects that "
            "have none of their own",
            proof=f"{self.pairs} pairs of runs agree with one address layout and one PYTHONHASHSEED, which alone does "
            "not do",
            line=_line(location) or self.divergence.line,
        )

    def _surroundings(
        self, location: Location | None, asked: "_Asked", kind: CauseKind, name: str, words: str, proof: str
    ) -> Iterator[Cause]:
        lines = [(source_line(one.line), one.context.get("function", "")) for one in asked if one.name == name]
        first = lines[0][0] if lines else _line(location) or self.divergence.line
        places = ", ".join(f"{line.path}:{line.line}" for line, _ in lines[1:4] if line is not None)
        others = f"; it is asked for at {places} as well" if places else ""
        function = f" (by {lines[0][1]})" if lines else ""
        yield Cause(kind=kind, statement=f"the result depends on {words}{function}{others}", proof=proof, line=first)


_Asked = list[Observation]
"""Remarks on what a script asked for, of one of the runs that agreed."""


def _line(location: Location | None) -> SourceLine | None:
    return location.line if location is not None else None


def _shown_by_trace(location: Location | None) -> Iterator[Cause]:
    """The causes that two traces prove."""
    if location is None or location.agreed or location.first is None:
        return
    op, line = location.first.op, location.line
    if location.kind == "kernel":
        kind = CauseKind.OVERLAP if location.overlap else CauseKind.KERNEL
        what = f"{op} gave different bits from inputs that are equal bit for bit"
        if location.overlap:
            what += "; it writes to a view whose elements share memory, so that threads race for it"
        yield Cause(kind=kind, statement=what, proof="digests of its inputs and outputs in two traced runs", line=line)
    elif location.kind == "uninitialised":
        yield Cause(
            kind=CauseKind.UNINITIALISED,
            statement=f"{op} reads memory that was allocated and never written",
            proof="the trace followed it from its allocation",
            line=line,
        )
    elif location.kind in ("external_input", "arguments"):
        what = "a tensor" if location.kind == "external_input" else "a number"
        yield Cause(
            kind=CauseKind.VALUE,
            statement=f"{op} is given {what} that differs and that no op of PyTorch made: it comes from Python, from "
            "another library, or from another thread",
            proof="all ops before it agree in two traced runs",
            line=line,
        )
    elif location.kind == "other_tensor":
        yield Cause(
            kind=CauseKind.VALUE,
            statement=f"{op} is given another tensor, although all ops before agree: Python, or a thread, chose it",
            proof="the order of ops and their digests in two traced runs",
            line=line,
        )
    elif location.kind == "generator" and OWN_GENERATOR in location.first.inputs:
        yield Cause(
            kind=CauseKind.OWN_GENERATOR,
            statement=f"{op} draws from a generator of the script's own, whose state differs: it was seeded "
            "otherwise, or not at all",
            proof="its state before the draw, and all ops before, in two traced runs",
            line=line,
        )
    elif location.kind == "control_flow":
        yield Cause(
            kind=CauseKind.CONTROL_FLOW,
            statement="the runs execute other ops from here on, although all ops before agree",
            proof="the order of ops in two traced runs",
            line=line,
        )
