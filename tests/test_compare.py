import pytest

from repro_audit.compare import Side, compare, compare_runs
from repro_audit.records import Completed, DivergenceKind, Pairing
from tests.builders import LEAVES, ROLES, Book, digest, failed, refused, run


def compared(first: list[dict[str, object]], second: list[dict[str, object]]):
    book = Book()
    outcome = book.completed(first, second)
    one, other = (Side(run="strict-a", outcome=outcome, repeat=n) for n in range(2))
    return compare(Pairing.SAME_PROCESS, one, other, book.states, ROLES)


def test_equal_repeats_do_not_diverge():
    comparison = compared([LEAVES, LEAVES, LEAVES], [LEAVES, LEAVES, LEAVES])
    assert comparison.divergence is None
    assert comparison.loss_equal
    assert comparison.state_equal


LEAF_OF_KIND = {DivergenceKind(role): leaf for leaf, role in ROLES.items()}


@pytest.mark.parametrize("kind", list(DivergenceKind))
def test_a_single_changed_leaf_is_found_whatever_its_role(kind: DivergenceKind):
    if kind is DivergenceKind.STRUCTURE:
        leaf, changed = "extra", {name: 0 for name in LEAVES if name != "extra"}
    else:
        leaf = LEAF_OF_KIND[kind]
        changed = {**LEAVES, leaf: 1}
    divergence = compared([LEAVES, LEAVES, LEAVES], [LEAVES, LEAVES, changed]).divergence
    assert divergence is not None
    assert (divergence.kind, divergence.step, divergence.leaf) == (kind, 2, leaf)
    assert divergence.first == digest(0)
    assert divergence.second == (None if kind is DivergenceKind.STRUCTURE else digest(1))
    assert (divergence.differing_leaves, divergence.total_leaves) == (1, len(LEAVES))


def test_the_first_diverging_step_is_named_not_the_worst():
    early = {**LEAVES, "rng/torch": 1}
    late = dict.fromkeys(LEAVES, 1)
    divergence = compared([LEAVES, LEAVES, LEAVES], [LEAVES, early, late]).divergence
    assert divergence is not None
    assert (divergence.step, divergence.leaf) == (1, "rng/torch")


def test_a_difference_after_setup_is_step_0():
    divergence = compared([LEAVES, LEAVES], [{**LEAVES, "model/weight": 1}, LEAVES]).divergence
    assert divergence is not None
    assert (divergence.step, divergence.kind) == (0, DivergenceKind.PARAMETER)


def test_within_a_step_the_loss_comes_before_what_follows_from_it():
    everything = dict.fromkeys(LEAVES, 1)
    divergence = compared([LEAVES, LEAVES], [LEAVES, everything]).divergence
    assert divergence is not None
    assert divergence.kind is DivergenceKind.LOSS
    assert divergence.differing_leaves == len(LEAVES)


def test_loss_and_state_are_told_apart():
    only_loss = compared([LEAVES, LEAVES], [LEAVES, {**LEAVES, "loss": 1}])
    assert (only_loss.loss_equal, only_loss.state_equal) == (False, True)
    only_state = compared([LEAVES, LEAVES], [LEAVES, {**LEAVES, "model/weight": 1}])
    assert (only_state.loss_equal, only_state.state_equal) == (True, False)


def test_a_repeat_with_fewer_steps_is_never_equal():
    comparison = compared([LEAVES, LEAVES, LEAVES], [LEAVES, LEAVES])
    assert comparison.divergence is not None
    assert comparison.divergence.kind is DivergenceKind.STRUCTURE
    assert not comparison.state_equal
    assert not comparison.loss_equal


def test_a_state_that_is_not_in_the_table_is_an_error_not_an_equality():
    book = Book()
    outcome = book.completed([LEAVES, LEAVES], [LEAVES, {**LEAVES, "extra": 1}])
    one, other = (Side(run="strict-a", outcome=outcome, repeat=n) for n in range(2))
    with pytest.raises(KeyError):
        compare(Pairing.SAME_PROCESS, one, other, {}, ROLES)


def test_every_pair_that_a_claim_rests_on_is_compared():
    book = Book()
    steps = [LEAVES, LEAVES]
    runs = (
        run("strict-a", book.completed(steps, steps)),
        run("strict-b1", book.completed(steps)),
        run("strict-b2", book.completed(steps)),
        run("warn_only", book.completed([LEAVES, {**LEAVES, "loss": 5}])),
    )
    pairs = [
        (
            comparison.pairing,
            comparison.first.run,
            comparison.first.repeat,
            comparison.second.run,
            comparison.second.repeat,
        )
        for comparison in compare_runs(runs, book.states, ROLES)
    ]
    assert pairs == [
        (Pairing.SAME_PROCESS, "strict-a", 0, "strict-a", 1),
        (Pairing.FRESH_PROCESS, "strict-a", 0, "strict-b1", 0),
        (Pairing.FRESH_PROCESS, "strict-a", 0, "strict-b2", 0),
    ]


@pytest.mark.parametrize("outcome", [refused(), failed()])
def test_without_a_completed_reference_nothing_is_compared(outcome):
    book = Book()
    runs = (run("strict-a", outcome), run("strict-b1", book.completed([LEAVES, LEAVES])))
    assert compare_runs(runs, book.states, ROLES) == ()


def test_a_failed_fresh_process_is_left_out():
    book = Book()
    outcome: Completed = book.completed([LEAVES], [LEAVES])
    comparisons = compare_runs((run("strict-a", outcome), run("strict-b1", failed())), book.states, ROLES)
    assert [comparison.pairing for comparison in comparisons] == [Pairing.SAME_PROCESS]


@pytest.mark.parametrize("name", ["strict-a", "strict-b1"])
def test_a_run_that_claims_to_be_complete_without_a_repeat_is_compared_with_nothing(name):
    book = Book()
    outcomes = {"strict-a": book.completed([LEAVES]), "strict-b1": book.completed([LEAVES])}
    outcomes[name] = Completed(repeats=())
    runs = [run(one, outcome) for one, outcome in outcomes.items()]
    assert compare_runs(runs, book.states, ROLES) == ()
