import pytest

from repro_audit.records import Comparison, Pairing, RepeatName
from repro_audit.report.finding import distinct_words
from tests.builders import LEAVES, Book, failed, run


def comparison(number: int) -> Comparison:
    return Comparison(
        pairing=Pairing.SAME_PROCESS,
        first=RepeatName(run="default", repeat=0),
        second=RepeatName(run="default", repeat=number),
        loss_equal=True,
        state_equal=True,
        divergence=None,
    )


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ((0, 1), ""),
        ((0, 1, 1), " (2 distinct of 3)"),
        ((0, 1, 2, 3), " (4 distinct of 4)"),
        ((0, 1, 0, 1, 0), " (2 distinct of 5)"),
    ],
)
def test_distinct_results_are_counted_where_there_are_more_than_two_repeats(results, words):
    outcome = Book().completed(*[[LEAVES, {**LEAVES, "loss": result}] for result in results])
    made = [comparison(number) for number in range(1, len(results))]
    assert distinct_words([run("default", outcome)], made) == words


def test_a_run_that_failed_has_no_result():
    assert distinct_words([run("default", failed())], [comparison(1), comparison(2)]) == " (0 distinct of 3)"
