import pytest

from repro_audit.records import Factor, FactorTest, Pairing
from repro_audit.report.factor_findings import factor_findings
from repro_audit.report.finding import Level

NO = {"fixed_pairs": 1}
RARE = {"fixed_pairs": 3, "fixed_agreeing": 3, "free_pairs": 6}
YES = {"fixed_pairs": 3, "fixed_agreeing": 3, "free_pairs": 2, "free_differing": 1}


def found(*tests: tuple[Factor, dict[str, int]]):
    made = [FactorTest(factor=factor, pairing=Pairing.FRESH_PROCESS, **counts) for factor, counts in tests]
    return list(factor_findings("race on cpu", made))


@pytest.mark.parametrize("factor", list(Factor))
def test_the_factor_that_decides_is_a_finding_with_what_was_seen_and_what_to_do(factor):
    (finding,) = found((factor, YES))
    assert finding.level is Level.FINDING
    assert finding.title.startswith("race on cpu: cause: ")
    assert "3 of 3 pairs of repeats agree; let go again, the second pair differs" in finding.lines[0]
    assert finding.next_step


def test_what_does_not_decide_is_a_note():
    cause, note = found((Factor.CLOCK, NO), (Factor.PROCESS, RARE), (Factor.THREADS, YES))
    assert cause.title == "race on cpu: cause: CPU threads working in parallel"
    assert note.level is Level.NOTE
    assert note.title == "race on cpu: what does not decide it"
    assert note.lines == (
        "with the clock fixed repeats still differ, the first pair",
        "with the process id fixed 3 pairs agree, but so do 6 with nothing fixed: the divergence is too rare to tell",
    )


def test_where_none_decides_that_is_said():
    (note,) = found((Factor.CLOCK, NO), (Factor.THREADS, {}))
    assert note.title == "race on cpu: no single factor that was tested decides it"
    assert note.lines[1] == "with one thread: not tested, the time for it was over (--budget)"


def test_nothing_was_tested_nothing_is_said():
    assert found() == []
