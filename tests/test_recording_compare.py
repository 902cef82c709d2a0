"""Two recordings compared: the first place where they part, whatever it is, and nothing that does not matter."""

import pytest

from repro_audit.errors import EvidenceError
from repro_audit.recording_compare import compare_recordings
from repro_audit.records import Role
from repro_audit.script_records import Observation, Point
from tests.sample_scripts import END, compared, loss, observation, recorded


def both(tmp_path, first, second):
    return compare_recordings(recorded(tmp_path / "a", first), recorded(tmp_path / "b", second))


def test_equal_recordings_have_no_divergence_and_everything_was_counted(tmp_path):
    items = [observation(Point.INPUT, "net"), loss(), observation(), loss(), observation(), END]
    comparison = compared(tmp_path, items, items)
    assert comparison.divergence is None
    assert (comparison.observations, comparison.results) == (5, 4)
    assert (comparison.losses, comparison.losses_equal) == (2, 2)


def test_the_first_difference_is_found_and_later_losses_are_counted(tmp_path):
    first = [loss(), observation(), loss(), observation(), loss(), END]
    second = [loss(), observation(), loss("1"), observation(value="1"), loss("1"), END]
    comparison = compared(tmp_path, first, second)
    divergence = comparison.divergence
    assert (divergence.position, divergence.step, divergence.point, divergence.role) == (2, 1, Point.LOSS, Role.LOSS)
    assert (divergence.first_loss.text, divergence.second_loss.text) == ("0.0", "0.1")
    assert divergence.last_equal == 1
    assert (comparison.losses, comparison.losses_equal) == (3, 1)


def test_of_several_leaves_the_one_that_was_computed_first_is_named(tmp_path):
    roles = {"w": Role.PARAMETER, "w.grad": Role.GRADIENT, "m": Role.OPTIMIZER}
    first, second = ([observation(leaves=dict.fromkeys(roles, f"sha256:{d * 64}"), roles=roles), END] for d in "01")
    divergence = compared(tmp_path, first, second).divergence
    assert (divergence.leaf, divergence.role) == ("w.grad", Role.GRADIENT)
    assert (divergence.differing_leaves, divergence.total_leaves) == (3, 3)


def test_a_leaf_that_is_there_in_one_run_only_is_a_difference(tmp_path):
    divergence = compared(tmp_path, [observation(), END], [observation(leaves={}), END]).divergence
    assert (divergence.leaf, divergence.second) == ("w", None)


def test_an_incomplete_look_is_compared_where_both_looked(tmp_path):
    whole, part = observation(leaves={"a": "sha256:0", "b": "sha256:1"}), observation(leaves={"a": "sha256:0"})
    assert compared(tmp_path / ".", [whole], [observation(leaves={"a": "sha256:0"}, complete=False)]).divergence is None
    assert part.complete


def test_an_incomplete_look_still_finds_what_differs(tmp_path):
    whole = observation(leaves={"a": "sha256:0", "b": "sha256:1"})
    assert compared(tmp_path, [whole], [observation(leaves={"a": "sha256:9"}, complete=False)]).divergence.leaf == "a"


@pytest.mark.parametrize(
    "other", [observation(Point.LOSS, "opt", "1"), observation(name="other", value="1")], ids=["point", "name"]
)
def test_runs_that_do_something_else_are_said_to(tmp_path, other):
    divergence = compared(tmp_path, [loss(), observation(), END], [loss(), other, END]).divergence
    assert divergence.role is None
    assert divergence.first == "step of opt at /home/user/train.py:9"
    assert divergence.second.startswith(f"{other.point.value} of {other.name}")


def test_another_line_is_told_with_other_values_and_no_difference_without(tmp_path):
    moved = observation(line="/elsewhere/train.py:9")
    other = observation(value="1", line="/home/user/train.py:20")
    assert compared(tmp_path / ".", [observation()], [moved]).divergence is None
    (tmp_path / "x").mkdir()
    divergence = compared(tmp_path / "x", [observation()], [other]).divergence
    assert divergence.role is None
    assert divergence.second == "step of opt at /home/user/train.py:20"


def test_a_run_that_goes_on_longer_differs(tmp_path):
    divergence = compared(tmp_path, [loss(), END], [loss(), loss(), END]).divergence
    assert (divergence.position, divergence.first) == (1, None)


def test_a_run_that_was_killed_is_compared_as_far_as_it_came(tmp_path):
    comparison = compared(tmp_path, [loss(), loss(), END], [loss()])
    assert comparison.divergence is None
    assert comparison.observations == 1
    assert comparison.notes == ("ended from outside, and compared as far as both runs had come: main (1 observations)",)


# ---------------------------------------------------------------------------------------------- generators


def state(value: str, **others: str):
    return {"generators": {"torch": value, **others}}


def test_a_generator_that_was_equal_once_must_stay_so(tmp_path):
    first = [loss(**state("a")), loss(**state("b")), END]
    second = [loss(**state("a")), loss(**state("c")), END]
    divergence = compared(tmp_path, first, second).divergence
    assert (divergence.position, divergence.leaf, divergence.role) == (1, "generator/torch", Role.RNG)


def test_a_generator_that_never_was_equal_and_is_not_used_is_no_difference(tmp_path):
    first = [loss(**state("a", numpy="x")), loss(**state("b")), END]
    second = [loss(**state("a", numpy="y")), loss(**state("b")), END]
    assert compared(tmp_path, first, second).divergence is None


def test_a_generator_that_moves_in_one_run_only_is_a_difference(tmp_path):
    divergence = compared(tmp_path, [loss(**state("a")), loss(), END], [loss(**state("a")), loss(**state("b")), END])
    assert divergence.divergence.leaf == "generator/torch"


# ---------------------------------------------------------------------------------------------- streams


def test_processes_are_matched_by_the_order_they_were_started_in(tmp_path):
    first = {"main": [loss(), END], "main/1": [loss("1"), END], "main/2": [loss("2"), END]}
    second = {"main": [loss(), END], "main/1": [loss("1"), END], "main/2": [loss("3"), END]}
    assert both(tmp_path, first, second).divergence.stream == "main/2"


def test_processes_that_shared_their_work_out_differently_did_the_same(tmp_path):
    first = {"main": [loss(), END], "main/1": [loss("1"), loss("2"), END], "main/2": [loss("3"), END]}
    second = {"main": [loss(), END], "main/1": [loss("1"), END], "main/2": [loss("3"), loss("2"), END]}
    comparison = both(tmp_path, first, second)
    assert comparison.divergence is None
    assert "together they did the same" in comparison.notes[0]


def test_what_processes_are_left_with_depends_on_what_they_were_given(tmp_path):
    ends = [observation(Point.FINAL, "script", value) for value in "0123"]
    first = {"main": [loss(), END], "main/1": [loss("1"), ends[0], END], "main/2": [loss("2"), ends[1], END]}
    second = {"main": [loss(), END], "main/1": [loss("2"), ends[2], END], "main/2": [loss("1"), ends[3], END]}
    assert both(tmp_path, first, second).divergence is None


def test_what_processes_are_left_with_counts_where_all_did_the_same(tmp_path):
    ends = [observation(Point.FINAL, "script", value) for value in "01"]
    first = {"main": [loss(), END], "main/1": [loss("1"), ends[0], END]}
    second = {"main": [loss(), END], "main/1": [loss("1"), ends[1], END]}
    assert both(tmp_path, first, second).divergence.point is Point.FINAL


def test_a_process_that_is_there_in_one_run_only_is_a_difference(tmp_path):
    comparison = both(tmp_path, {"main": [loss(), END]}, {"main": [loss(), END], "main/1": [loss(), END]})
    assert (comparison.divergence.stream, comparison.divergence.first) == ("main/1", None)


def test_the_main_process_comes_first_and_others_are_told_besides(tmp_path):
    first = {"main": [loss(), END], "main/1": [loss("1"), END]}
    second = {"main": [loss("2"), END], "main/1": [loss("3"), END]}
    comparison = both(tmp_path, first, second)
    assert comparison.divergence.stream == "main"
    assert [later.stream for later in comparison.later] == ["main/1"]


def test_threads_are_compared_in_any_order(tmp_path):
    first = {"main": [loss(), END], "main+threads": [loss("1"), loss("2"), END]}
    second = {"main": [loss(), END], "main+threads": [loss("2"), loss("1"), END]}
    assert both(tmp_path, first, second).divergence is None


def test_what_one_thread_computed_otherwise_is_found(tmp_path):
    first = {"main": [loss(), END], "main+threads": [loss("1"), loss("2"), END]}
    second = {"main": [loss(), END], "main+threads": [loss("3"), loss("1"), END]}
    divergence = both(tmp_path, first, second).divergence
    assert (divergence.stream, divergence.leaf) == ("main+threads", "loss")
    assert {divergence.first_loss.text, divergence.second_loss.text} == {"0.2", "0.3"}


def test_remarks_are_not_compared(tmp_path):
    first, second = (Observation(point=Point.SEED, name="torch", context={"value": value}) for value in "12")
    comparison = compared(tmp_path, [first, loss(), END], [second, loss(), END])
    assert comparison.divergence is None
    assert comparison.observations == 1


def test_data_alone_shows_no_result(tmp_path):
    items = [observation(Point.BATCH, "loader"), observation(Point.INPUT, "net"), END]
    assert compared(tmp_path, items, items).results == 0


def test_a_damaged_stream_is_an_error_that_names_it(tmp_path):
    first = recorded(tmp_path / "a", {"main": [loss(), END]})
    second = recorded(tmp_path / "b", {"main": [loss(), END]})
    (tmp_path / "b" / "streams" / "main.jsonl").write_text("{broken\n{}\n")
    with pytest.raises(EvidenceError, match=r"main\.jsonl is damaged"):
        compare_recordings(first, second)
