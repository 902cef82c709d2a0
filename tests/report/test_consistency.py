import msgspec
import pytest

from repro_audit.records import Comparison, Pairing, RepeatName, State
from repro_audit.report.consistency import contradictions
from tests.sample_reports import canaries, completed_case, report


def changed(**fields):
    return report([msgspec.structs.replace(completed_case("one"), **fields)])


def test_a_sound_report_does_not_contradict_itself():
    assert list(contradictions(report())) == []


def comparison(run: str, repeat: int) -> Comparison:
    return Comparison(
        pairing=Pairing.FRESH_PROCESS,
        first=RepeatName(run="strict-a", repeat=0),
        second=RepeatName(run=run, repeat=repeat),
        loss_equal=True,
        state_equal=True,
        divergence=None,
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (changed(states={}), "run strict-a, repeat 0: the state after step 0 is missing"),
        (changed(roles={}), "leaf model/0.weight has no role"),
        (changed(states={"sha256:" + "0" * 64: State(loss=None, leaves={})}), "does not hold what its digest says"),
        (changed(comparisons=(comparison("strict-b2", 0),)), "run strict-b2, which is not there"),
        (changed(comparisons=(comparison("strict-b1", 1),)), "repeat 1 of run strict-b1, which is not there"),
        (changed(comparisons=(comparison("strict-b1", -1),)), "repeat -1 of run strict-b1, which is not there"),
        (changed(runs=completed_case().runs[:1] * 2), "two runs have the same name"),
        (report([completed_case("one"), completed_case("one")]), "case one/cpu is there twice"),
        (
            changed(comparisons=(msgspec.structs.replace(comparison("strict-b1", 0), state_equal=False),)),
            "found a difference, but no divergence",
        ),
    ],
)
def test_a_contradiction_is_named_with_its_case(content, words):
    found = list(contradictions(content))
    assert any(words in contradiction and "one/cpu" in contradiction for contradiction in found)


def test_a_canary_is_held_to_the_same():
    first, *others = canaries()
    broken = msgspec.structs.replace(first, result=msgspec.structs.replace(first.result, states={}))
    found = list(contradictions(report([completed_case()], (broken, *others))))
    assert found
    assert all(contradiction.startswith("canary one_ulp: ") for contradiction in found)
