import msgspec
import pytest

from repro_audit.difference_records import Bits, CaseDifference, Changed, Difference
from repro_audit.reproduction import Reproduced, reproduction

CONDITION = Changed(name="torch.version", first="2.13.0", second="2.14.0", condition=True)
FREE = Changed(name="git.commit", first="a", second="b", condition=False)


def case(first="PASS", second="PASS", bits=Bits.EQUAL, **fields):
    return CaseDifference(case="mlp/cpu", first_verdict=first, second_verdict=second, bits=bits, **fields)


def judged(*cases, environment=(), subjects=(), trusted=True):
    difference = Difference(
        first="a",
        second="b",
        first_digest="",
        second_digest="",
        environment=environment,
        settings=(),
        subjects=subjects,
        cases=cases,
    )
    return reproduction(difference, trusted=trusted)


NOT = Bits.NOT_COMPARED
CELL = Changed(name="threads=1", first="same", second="other", condition=True)


@pytest.mark.parametrize(
    ("one", "environment", "expected", "code"),
    [
        (case(), (), Reproduced.EQUAL, 0),
        (case(), (CONDITION,), Reproduced.EQUAL, 0),
        (case(bits=Bits.DIFFER), (), Reproduced.OTHER_BITS, 1),
        (case(bits=Bits.DIFFER), (FREE,), Reproduced.OTHER_BITS, 1),
        (case(bits=Bits.DIFFER), (CONDITION,), Reproduced.OTHER_CONDITIONS, 3),
        (case(cells=(CELL,)), (), Reproduced.OTHER_BITS, 1),
        (case(cells=(CELL,)), (CONDITION,), Reproduced.OTHER_CONDITIONS, 3),
        (case(second="FAIL", bits=NOT), (), Reproduced.LOST, 1),
        (case(second="FAIL", bits=NOT), (CONDITION,), Reproduced.LOST, 1),
        (case(second="FAIL"), (), Reproduced.LOST, 1),  # strict mode was undone: the bits alone do not excuse it
        (case(second="REFUSED", bits=NOT), (CONDITION,), Reproduced.LOST, 1),
        (case(second="ERROR", bits=NOT), (), Reproduced.NOT_COMPARED, 3),
        (case(second="SKIP", bits=NOT), (), Reproduced.NOT_COMPARED, 3),
        (case(second=None, bits=NOT), (), Reproduced.NOT_COMPARED, 3),
        (case(first=None, bits=NOT), (), Reproduced.NOT_COMPARED, 3),
        (case("FAIL", "PASS", NOT), (), Reproduced.NOT_COMPARED, 3),
        (case("REFUSED", "PASS", NOT), (CONDITION,), Reproduced.NOT_COMPARED, 3),
        (case("FAIL", "FAIL", NOT), (), Reproduced.SAME_VERDICT, 5),
        (case("REFUSED", "REFUSED", NOT), (), Reproduced.SAME_VERDICT, 5),
        (case("WAIVED", "FAIL", NOT), (), Reproduced.SAME_VERDICT, 5),
        (case("WAIVED", "PASS", NOT), (), Reproduced.NOT_COMPARED, 3),
        (case("ERROR", "ERROR", NOT), (), Reproduced.NOT_COMPARED, 3),
        (case("SKIP", "SKIP", NOT), (), Reproduced.NOT_COMPARED, 3),
    ],
)
def test_what_became_of_a_case(one, environment, expected, code):
    found = judged(one, environment=environment)
    assert (found.cases[0].reproduced, found.exit_code) == (expected, code)


def test_a_finding_outranks_what_is_open_and_that_outranks_what_is_reproduced():
    equal, other = case(), case(bits=Bits.DIFFER)
    absent = case(second="SKIP", bits=NOT)
    assert judged(equal, absent, other).exit_code == 1
    assert judged(equal, absent).exit_code == 3
    assert judged(equal, case("FAIL", "FAIL", NOT)).exit_code == 0
    assert judged().exit_code == 5


@pytest.mark.parametrize("subject", ["workload mlp", "script train.py"])
def test_a_changed_file_excuses_its_own_case_and_no_other(subject):
    changed = Changed(name=subject, first="sha256:0", second="sha256:1", condition=True)
    cases = [
        msgspec.structs.replace(case(bits=Bits.DIFFER), case=name)
        for name in ("mlp/cpu", "mlp-wide/cpu", "train.py", "other/train.py")
    ]
    found = judged(*cases, subjects=(changed,))
    excused = {one.case for one in found.cases if one.reproduced is Reproduced.OTHER_CONDITIONS}
    assert excused == ({"mlp/cpu"} if subject == "workload mlp" else {"train.py"})
    assert found.exit_code == 1


def test_an_audit_that_cannot_be_trusted_reproduces_nothing():
    found = judged(case(), trusted=False)
    assert found.exit_code == 3
    assert "a canary was not caught" in found.statement


def test_the_statement_says_whether_the_conditions_hold():
    assert "The conditions are those of the archive" in judged(case()).statement
    found = judged(case(bits=Bits.DIFFER), environment=(CONDITION, FREE))
    assert "1 condition differs" in found.statement
    assert "no finding" in found.statement
