import io
import re

import pytest
from rich.console import Console

from repro_audit.report.variation_matrix import _NEXT_STEPS, print_matrix
from repro_audit.variation_records import Expectation
from repro_audit.variations import VARIATIONS
from tests import sample_variations
from tests.sample_variations import good, report


def drawn(content=None, width: int = 120) -> str:
    stream = io.StringIO()
    print_matrix(content or report(), Console(file=stream, width=width, highlight=False))
    return stream.getvalue()


def row(text: str, name: str) -> str:
    (line,) = [line for line in text.splitlines() if re.match(rf"\s*{re.escape(name)}\s", line)]
    return " ".join(line.split())


def words(text: str) -> str:
    return " ".join(text.split())


def test_each_value_of_a_variation_is_a_row_and_each_case_a_column():
    text = drawn()
    assert row(text, "variation") == "variation expected model/cpu broken/cpu"
    assert row(text, "hashseed=1") == "hashseed=1 same same -"
    assert row(text, "threads=1") == "threads=1 any differs after step 2: model/0.weight, 1 ULP -"
    assert row(text, "threads=2") == "threads=2 any - -"
    assert row(text, "tz=UTC-14") == "tz=UTC-14 same differs after step 2: model/0.weight not judged"
    assert row(text, "umask=077") == "umask=077 same same failed"
    assert "tf32" not in text


def test_each_case_has_its_verdict_and_what_may_be_claimed():
    text = words(drawn())
    assert "model/cpu: FAIL bits depend on what must not matter: time zone" in text
    assert "reproducible on this machine with the same thread count (2), time zone (UTC UTC) and address layout" in text
    assert "broken/cpu: ERROR not every varied run came to its end: umask" in text
    assert "held in the unvaried runs: hashseed 0, tz UTC UTC, threads 2, umask 022" in text


def test_what_must_not_matter_and_does_is_a_finding_with_what_to_do():
    text = words(drawn())
    assert "finding: model/cpu: bits depend on tz, which must not matter" in text
    assert "tz=UTC-14: 2 of 2 runs differ, 2 distinct, first seen after step 2: model/0.weight" in text
    assert "the 2 unvaried runs agree" in text
    assert "next: work in UTC" in text
    assert "note: model/cpu: bits depend on threads: part of the claim" in text
    assert text.index("depend on tz") < text.index("depend on threads: part")


def test_what_was_not_made_is_said_with_the_reason():
    text = words(drawn())
    assert "note: model/cpu: threads=2 not made: the unvaried runs have it already" in text
    assert "note: broken/cpu: tz=UTC-14 not made: why not" in text
    assert "incomplete: broken/cpu: a run under umask=077 did not come to its end exception: ValueError: no" in text


def test_a_good_case_has_no_finding():
    text = words(drawn(report([good()])))
    assert "good/cpu: PASS" in text
    assert "finding" not in text
    assert "1 run for each variation that changed nothing: with 95 % confidence it changes fewer than 95 %" in text


def test_many_cases_go_into_several_tables():
    text = drawn(report([good()] * 5))
    assert sum(line.split()[:2] == ["variation", "expected"] for line in text.splitlines()) == 2


def test_a_script_is_placed_by_what_was_observed():
    assert row(drawn(sample_variations.of_script()), "tz=UTC-14") == "tz=UTC-14 same differs after step 1: loss of loss"


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width):
    assert max(len(line) for line in drawn(width=width).splitlines()) <= width


def test_whatever_must_not_matter_has_a_next_step():
    strict = [one.name for one in VARIATIONS if one.expectation is Expectation.MUST_NOT_MATTER]
    assert sorted(_NEXT_STEPS) == sorted(strict)
