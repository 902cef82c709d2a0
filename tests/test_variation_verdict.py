import msgspec
import pytest

from repro_audit.records import Divergence, DivergenceKind, Verdict
from repro_audit.variation_records import UNVARIED, Cell, Effect, Expectation, VariedCase, VariedRun
from repro_audit.variation_verdict import UNSETTLED, claim_of, judge_case, judge_cell, summarize_variations
from tests.builders import digest

STRICT, CLAIM = Expectation.MUST_NOT_MATTER, Expectation.PART_OF_CLAIM

PARTED = Divergence(
    kind=DivergenceKind.LOSS,
    step=1,
    leaf="loss",
    first=digest(0),
    second=digest(1),
    differing_leaves=1,
    total_leaves=1,
)


def made(name: str, variation: str = UNVARIED, value: str = "", result: int = 0, failure: str = "") -> VariedRun:
    return VariedRun(
        name=name,
        variation=variation,
        value=value,
        failure=failure,
        result=-1 if failure else result,
        digests=() if failure else (digest(result),),
        divergence=PARTED if result else None,
    )


HELD = (made("unvaried"), made("unvaried-1"))


def cell(variation: str, expectation: Expectation, effect: Effect = Effect.SAME, **fields: object) -> Cell:
    return Cell(variation=variation, value="x", expectation=expectation, effect=effect, **fields)


@pytest.mark.parametrize(
    ("runs", "effect", "counts"),
    [
        ((made("t", "tz", "x"),), Effect.SAME, (1, 0, 1)),
        ((made("t", "tz", "x", 1),), Effect.DIFFERS, (1, 1, 1)),
        ((made("t", "tz", "x", 1), made("u", "tz", "x", 2), made("v", "tz", "x")), Effect.DIFFERS, (3, 2, 3)),
        ((made("t", "tz", "x", failure="exit"),), Effect.FAILED, (1, 0, 0)),
        ((made("t", "tz", "x", failure="exit"), made("u", "tz", "x", 1)), Effect.DIFFERS, (2, 1, 1)),
        ((made("t", "tz", "y", 1), made("u", "umask", "x", 1), made("v", "tz", "x")), Effect.SAME, (1, 0, 1)),
    ],
)
def test_a_cell_is_what_its_own_runs_show(runs, effect, counts):
    judged = judge_cell(cell("tz", STRICT), [*HELD, *runs])
    assert judged.effect is effect
    assert (judged.runs, judged.differing, judged.distinct) == counts


def test_a_difference_says_nothing_where_the_unvaried_runs_differ_too():
    judged = judge_cell(cell("tz", STRICT), [*HELD, made("unvaried-2", result=1), made("t", "tz", "x", 2)])
    assert (judged.effect, judged.reason) == (Effect.NOT_JUDGED, UNSETTLED)


def test_a_cell_that_was_not_made_keeps_its_reason():
    empty = cell("tz", STRICT, Effect.NOT_APPLICABLE, reason="nothing there")
    assert judge_cell(empty, HELD) == empty


@pytest.mark.parametrize(
    ("runs", "cells", "verdict", "words"),
    [
        (HELD, [cell("tz", STRICT)], Verdict.PASS, "nothing that must not matter changed a bit, in 2 runs"),
        (HELD, [cell("threads", CLAIM, Effect.DIFFERS)], Verdict.PASS, "nothing that must not matter"),
        (HELD, [cell("tz", STRICT, Effect.DIFFERS)], Verdict.FAIL, "bits depend on what must not matter: time zone"),
        (HELD, [cell("tz", STRICT, Effect.FAILED)], Verdict.ERROR, "not every varied run came to its end: time zone"),
        (HELD, [cell("tz", STRICT, Effect.NOT_JUDGED)], Verdict.ERROR, "no variation could be made"),
        (HELD, [], Verdict.ERROR, "no variation could be made"),
        (HELD[:1], [cell("tz", STRICT)], Verdict.ERROR, "the unvaried run was not repeated"),
        ((), [], Verdict.ERROR, "it was not run"),
        ((made("unvaried", failure="exit: 1"),), [], Verdict.ERROR, "exit: 1"),
        ((made("unvaried", failure="strict mode refused put_"),), [], Verdict.REFUSED, "strict mode refused put_"),
        ((*HELD, made("unvaried-2", failure="exit: 1")), [cell("tz", STRICT)], Verdict.ERROR, "exit: 1"),
        (
            (*HELD, made("unvaried-2", result=1)),
            [cell("tz", STRICT, Effect.NOT_JUDGED)],
            Verdict.FAIL,
            "2 distinct results in 3 runs although all conditions were held",
        ),
    ],
)
def test_verdicts(runs, cells, verdict, words):
    found, reason = judge_case(runs, cells)
    assert found is verdict
    assert words in reason


FREE = {"hashseed": "random", "threads": "2"}


@pytest.mark.parametrize(
    ("cells", "held", "claim"),
    [
        ([cell("tz", STRICT)], FREE, "reproducible on this machine; bits did not depend on time zone"),
        (
            [cell("threads", CLAIM, Effect.DIFFERS), cell("tz", STRICT), cell("umask", STRICT)],
            FREE,
            "reproducible on this machine with the same thread count (2); bits did not depend on time zone and umask",
        ),
        (
            [cell("tz", STRICT, Effect.DIFFERS), cell("umask", STRICT)],
            FREE | {"tz": "UTC"},
            "reproducible on this machine with the same time zone (UTC); bits did not depend on umask; they must not "
            "depend on time zone, and do",
        ),
        (
            [cell("tz", STRICT), cell("umask", STRICT, Effect.NOT_JUDGED)],
            FREE,
            "reproducible on this machine; bits did not depend on time zone; not known under another umask",
        ),
        (
            [cell("tz", STRICT)],
            {"hashseed": "0", "aslr": "fixed"},
            "reproducible on this machine with the same hash seed (0) and address layout (fixed); bits did not depend "
            "on time zone",
        ),
        (
            [cell("hashseed", STRICT)],
            {"hashseed": "0"},
            "reproducible on this machine; bits did not depend on hash seed",
        ),
        ([cell("tz", STRICT, Effect.NOT_JUDGED)], FREE, ""),
    ],
)
def test_the_claim_has_as_conditions_what_matters_and_what_was_held_and_never_varied(cells, held, claim):
    assert claim_of(Verdict.PASS, cells, held) == claim


def test_what_does_not_repeat_supports_no_claim():
    assert claim_of(Verdict.ERROR, [cell("tz", STRICT)], FREE) == ""


def varied(verdict: Verdict) -> VariedCase:
    return VariedCase(subject=verdict.value, verdict=verdict, reason="", claim="", held={}, runs=(), cells=())


@pytest.mark.parametrize(
    ("verdicts", "complete", "code"),
    [
        ([Verdict.PASS], True, 0),
        ([Verdict.PASS, Verdict.FAIL, Verdict.ERROR], True, 1),
        ([Verdict.REFUSED], True, 1),
        ([Verdict.PASS, Verdict.ERROR], True, 3),
        ([Verdict.SKIP], True, 5),
        ([], True, 5),
        ([Verdict.PASS], False, 130),
    ],
)
def test_exit_codes(verdicts, complete, code):
    assert summarize_variations([varied(one) for one in verdicts], complete=complete).exit_code == code


def test_a_refusal_that_the_workload_declares_is_no_finding():
    declared = msgspec.structs.replace(varied(Verdict.REFUSED), declared_refusal="https://example.org")
    assert summarize_variations([declared, varied(Verdict.PASS)], complete=True).exit_code == 0
