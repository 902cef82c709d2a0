"""What decides a divergence, by test: one factor is fixed at a time, until repeats agree, and let go again."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from repro_audit.launch import Launched
from repro_audit.plan import PlannedRun, plan_factor
from repro_audit.records import (
    Case,
    Comparison,
    Completed,
    Factor,
    FactorTest,
    Pairing,
    Settings,
    WorkloadSource,
)
from repro_audit.variations import CLOCK_HELD, Conditions, Start

FREE = Conditions(start=Start(variables={}, fixed_addresses=False))
"""Nothing is fixed: as the runs were made that diverged."""

FEWEST_PAIRS = 3
MOST_PAIRS = 30

CHANCE = 0.05
"""How likely at most all pairs may agree by luck, at the rate of divergence that was seen."""

FIXED_HASH_SEED = "0"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def _in_process(name: str, value: str) -> Conditions:
    return replace(FREE, in_process={name: value})


def _started(variables: dict[str, str], *, fixed_addresses: bool = False) -> Conditions:
    return replace(FREE, start=Start(variables=variables, fixed_addresses=fixed_addresses, cold=fixed_addresses))


CONDITIONS: dict[Factor, Conditions] = {
    Factor.CLOCK: _in_process("clock", CLOCK_HELD),
    Factor.PROCESS: _in_process("process", "fixed"),
    Factor.ENTROPY: _in_process("entropy", "fixed"),
    Factor.THREADS: _started(ONE_THREAD),
    Factor.HASH_SEED: _started({"PYTHONHASHSEED": FIXED_HASH_SEED}),
    # Where a block of memory lies follows from what was allocated before, and that from the order of hash tables.
    Factor.ADDRESSES: _started({"PYTHONHASHSEED": FIXED_HASH_SEED}, fixed_addresses=True),
}
"""How each factor is fixed: first what needs no interpreters of its own, and the hash seed before addresses."""


@dataclass(frozen=True, kw_only=True)
class _Case:
    case: Case
    source: WorkloadSource
    settings: Settings
    scratch: Path
    make: Callable[[Case, Sequence[PlannedRun]], list[Launched]]

    def agreeing(self, factor: Factor | None, pairing: Pairing, pairs: int) -> Iterator[bool | None]:
        """Whether each of some pairs of repeats agrees; None where one of its runs did not come to its end.

        Args:
            factor: What is fixed; None fixes nothing.
        """
        conditions = CONDITIONS[factor] if factor is not None else FREE
        name = factor.value if factor is not None else "free"
        planned = plan_factor(
            self.case, self.source, self.settings, self.scratch, name, conditions, pairing=pairing, pairs=pairs
        )
        reference: object = None
        for number, run in enumerate(planned):
            (made,) = self.make(self.case, [run])
            outcome = made.run.outcome
            repeats = outcome.repeats if isinstance(outcome, Completed) else ()
            if number == 0:
                reference = repeats[0] if repeats else None
                repeats = repeats[1:]
            if reference is None or not isinstance(outcome, Completed):
                yield None
                return
            yield from (repeat == reference for repeat in repeats)


def pairs_needed(differing: int, pairs: int) -> int:
    """How many pairs have to agree before that is no luck, where so many of so many pairs differed."""
    if differing >= pairs:
        return FEWEST_PAIRS
    needed = math.ceil(math.log(CHANCE) / math.log(1 - differing / pairs))
    return min(max(needed, FEWEST_PAIRS), MOST_PAIRS)


def tried_factors(
    case: Case,
    source: WorkloadSource,
    settings: Settings,
    scratch: Path,
    comparisons: Sequence[Comparison],
    make: Callable[[Case, Sequence[PlannedRun]], list[Launched]],
    deadline: float,
) -> tuple[FactorTest, ...]:
    """Fixes one factor after the other; ends with the first that decides whether repeats agree.

    Repeats of fresh processes are taken where those differ; in one process, only the number of threads is a factor.

    Args:
        comparisons: Those of the audit.
        make: Makes planned runs, one after the other.
        deadline: Reading of `time.monotonic` after which no further factor is tested.
    """
    fresh = any(one.divergence for one in comparisons if one.pairing is Pairing.FRESH_PROCESS)
    pairing = Pairing.FRESH_PROCESS if fresh else Pairing.SAME_PROCESS
    compared = [one for one in comparisons if one.pairing is pairing]
    differing = sum(one.divergence is not None for one in compared)
    if not differing:
        return ()
    wanted = pairs_needed(differing, len(compared))
    context = _Case(case=case, source=source, settings=settings, scratch=scratch, make=make)
    tests: list[FactorTest] = []
    for factor in CONDITIONS if fresh else (Factor.THREADS,):
        if time.monotonic() > deadline:
            tests.append(FactorTest(factor=factor, pairing=pairing))
            continue
        agreed = _until_not_agreeing(context.agreeing(factor, pairing, wanted))
        released: list[bool | None] = []
        if len(agreed) == wanted and all(agreed):
            released = _until_not_agreeing(context.agreeing(None, pairing, 2 * wanted))
        test = FactorTest(
            factor=factor,
            pairing=pairing,
            fixed_pairs=len(agreed),
            fixed_agreeing=agreed.count(True),
            free_pairs=len(released),
            free_differing=released.count(False),
        )
        tests.append(test)
        if test.decides:
            break
    return tuple(tests)


def _until_not_agreeing(answers: Iterator[bool | None]) -> list[bool | None]:
    """The answers up to and with the first pair that does not agree."""
    taken: list[bool | None] = []
    for answer in answers:
        taken.append(answer)
        if not answer:
            break
    return taken
