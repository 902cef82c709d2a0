"""What decides a divergence, with runs that are made up; the real ones are in test_known_bad."""

import time
from pathlib import Path

import pytest

from repro_audit.factors import CONDITIONS, MOST_PAIRS, pairs_needed, tried_factors
from repro_audit.launch import Launched
from repro_audit.plan import PlannedRun
from repro_audit.records import Case, Comparison, Divergence, DivergenceKind, Factor, Pairing, RepeatName
from tests.builders import Book, ended, failed, run
from tests.fakes import source, steps
from tests.test_audit import settings

LATER = time.monotonic() + 3600


def comparison(pairing: Pairing, *, diverged: bool) -> Comparison:
    parted = Divergence(
        kind=DivergenceKind.LOSS, step=1, leaf="loss", first=None, second=None, differing_leaves=1, total_leaves=1
    )
    return Comparison(
        pairing=pairing,
        first=RepeatName(run="strict-a", repeat=0),
        second=RepeatName(run="strict-b1", repeat=0),
        loss_equal=not diverged,
        state_equal=True,
        divergence=parted if diverged else None,
    )


class Made:
    """Runs that differ from each other unless a factor is fixed."""

    def __init__(self, *, fixing: str = "", every: int = 1, failing: str = "", free_agrees: bool = False) -> None:
        self.fixing, self.every, self.failing, self.free_agrees = fixing, every, failing, free_agrees
        self.names: list[str] = []
        self.planned: list[PlannedRun] = []
        self.count = 0

    def __call__(self, case: Case, planned: list[PlannedRun]) -> list[Launched]:
        return [self.one(each) for each in planned]

    def one(self, planned: PlannedRun) -> Launched:
        task = planned.task
        self.names.append(task.run)
        self.planned.append(planned)
        book = Book()
        if self.failing and task.run.startswith(self.failing):
            return Launched(run=run(task.run, failed()), states={}, roles={}, ended=ended())
        agrees = (self.fixing and task.run.startswith(self.fixing)) or (self.free_agrees and task.run[:4] == "free")
        repeats = []
        for _ in range(task.repeats):
            self.count += 1
            repeats.append(steps(task, {"loss": 0 if agrees or self.count % self.every else self.count}))
        return Launched(run=run(task.run, book.completed(*repeats)), states={}, roles={}, ended=ended())


FRESH, SAME = Pairing.FRESH_PROCESS, Pairing.SAME_PROCESS


def tried(made: Made, *comparisons: Comparison, deadline: float = LATER):
    compared = comparisons or (comparison(SAME, diverged=False), comparison(FRESH, diverged=True))
    case = Case(workload="one", device="cpu")
    return tried_factors(case, source("one"), settings(), Path("/nowhere"), compared, made, deadline)


@pytest.mark.parametrize(
    ("differing", "pairs", "needed"),
    [(1, 1, 3), (20, 20, 3), (10, 20, 5), (5, 20, 11), (1, 20, MOST_PAIRS), (2, 20, 29)],
)
def test_as_many_pairs_are_made_as_the_observed_rate_needs(differing, pairs, needed):
    assert pairs_needed(differing, pairs) == needed


@pytest.mark.parametrize("factor", list(Factor))
def test_the_factor_that_makes_the_divergence_go_away_and_come_back_decides(factor):
    made = Made(fixing=factor.value.replace(" ", "-"))
    tests = tried(made)
    assert [test.factor for test in tests] == list(CONDITIONS)[: len(tests)]
    assert [test.factor for test in tests if test.decides] == [factor]
    assert (tests[-1].fixed_agreeing, tests[-1].fixed_pairs, tests[-1].free_differing) == (3, 3, 1)
    assert all((test.fixed_agreeing, test.fixed_pairs) == (0, 1) for test in tests[:-1])


def test_nothing_decides_where_every_pair_differs_whatever_is_fixed():
    tests = tried(Made())
    assert [test.factor for test in tests] == list(CONDITIONS)
    assert not any(test.decides for test in tests)


def test_what_does_not_come_back_was_luck_and_decides_nothing():
    tests = tried(Made(fixing="clock", free_agrees=True))
    assert (tests[0].fixed_agreeing, tests[0].free_pairs, tests[0].free_differing) == (3, 6, 0)
    assert not any(test.decides for test in tests)


def test_a_rare_divergence_gets_more_pairs():
    compared = [comparison(FRESH, diverged=number < 5) for number in range(10)]
    tests = tried(Made(fixing="threads"), *compared)
    assert tests[-1].factor is Factor.THREADS
    assert tests[-1].fixed_pairs == 5


def test_a_run_that_fails_agrees_with_nothing():
    tests = tried(Made(fixing="clock", failing="clock-002"))
    assert (tests[0].factor, tests[0].fixed_agreeing, tests[0].fixed_pairs) == (Factor.CLOCK, 1, 2)
    assert not any(test.decides for test in tests)
    assert tried(Made(failing="clock-000"))[0].fixed_pairs == 1


def test_repeats_of_one_process_are_compared_where_fresh_processes_agree():
    made = Made(fixing="threads")
    (test,) = tried(made, comparison(SAME, diverged=True), comparison(FRESH, diverged=False))
    assert (test.factor, test.pairing, test.decides) == (Factor.THREADS, SAME, True)
    assert made.names == ["threads-000", "free-000"]
    assert [planned.task.repeats for planned in made.planned] == [4, 7]


def test_where_nothing_diverged_nothing_is_tested():
    assert tried(Made(), comparison(FRESH, diverged=False)) == ()


def test_what_there_is_no_time_for_is_told():
    made = Made()
    tests = tried(made, deadline=time.monotonic() - 1)
    assert [test.fixed_pairs for test in tests] == [0] * len(CONDITIONS)
    assert made.names == []


def test_runs_are_named_alike_and_started_as_the_factor_wants():
    made = Made()
    tried(made)
    starts = {planned.task.run.rpartition("-")[0]: planned.start for planned in made.planned}
    assert starts["clock"] is None
    assert starts["threads"].variables["OMP_NUM_THREADS"] == "1"
    assert starts["hash-seed"].variables == {"PYTHONHASHSEED": "0"}
    assert starts["address-layout"].fixed_addresses and starts["address-layout"].cold
    assert len({len(planned.task.run) for planned in made.planned if planned.task.run.startswith("clock")}) == 1
