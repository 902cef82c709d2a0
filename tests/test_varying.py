"""How a case is put under variations, with runs that are made up; the real ones are in test_vary."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from repro_audit.plan import Zygote
from repro_audit.records import Distance, Verdict, WorkloadSource
from repro_audit.variation_records import UNVARIED, Effect, VariedRun
from repro_audit.variations import HELD, VARIATIONS, Conditions, Start
from repro_audit.vary import LEAST_REPEATS, Made, Varying
from tests import sample_variations
from tests.fakes import source
from tests.sample_reports import distance

READ = {"hashseed": "0", "threads": "2", "tz": "UTC UTC", "umask": "022", "aslr": "fixed"}


@dataclass
class Subject:
    """Gives the result that its name is mapped to, 0 where it is mapped to none."""

    results: dict[str, int] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    unchanged: tuple[str, ...] = ()
    names: list[str] = field(default_factory=list)
    prepared: list[Start] = field(default_factory=list)
    measured: list[str] = field(default_factory=list)
    name: str = "model/cpu"
    device: str = "cpu"
    device_types: tuple[str, ...] = ("cpu",)
    source: WorkloadSource | None = None

    def prepare(self, starts: Iterable[Start]) -> None:
        self.prepared += starts

    def make(self, name: str, zygote: Zygote, conditions: Conditions, variation: str, value: str) -> Made:
        self.names.append(name)
        run = sample_variations.run(name, variation, value, self.results.get(name, 0), self.failures.get(name, ""))
        read = READ if variation in (UNVARIED, *self.unchanged) else READ | {variation: value}
        return Made(run=run, conditions=read)

    def how_far(self, run: VariedRun, conditions: Conditions) -> tuple[Distance | None, str]:
        self.measured.append(run.name)
        return distance(), "a note"


def varied(subject: Subject, repeats: int = 1, **chosen: tuple[str, ...]):
    environment = sample_variations.report().environment
    varying = Varying(chosen=chosen, table=VARIATIONS, repeats=repeats, environment=environment)
    return varying.case(subject)


def test_what_changes_nothing_is_run_once_and_what_does_three_times_with_one_more_unvaried():
    subject = Subject(results={"tz=UTC-14": 1, "tz=UTC-14-2": 1, "tz=UTC-14-3": 1})
    case = varied(subject, umask=("077",), tz=("UTC-14",))
    assert subject.names == [
        "unvaried",
        *(f"unvaried-{number}" for number in range(1, LEAST_REPEATS + 1)),
        "tz=UTC-14",
        "tz=UTC-14-2",
        "tz=UTC-14-3",
        "unvaried-after-tz=UTC-14",
        "umask=077",
    ]
    assert [(cell.variation, cell.effect, cell.runs) for cell in case.cells] == [
        ("tz", Effect.DIFFERS, 3),
        ("umask", Effect.SAME, 1),
    ]
    assert case.cells[0].distance == distance()
    assert case.verdict is Verdict.FAIL


def test_more_repeats_are_made_of_everything_where_they_are_asked_for():
    subject = Subject()
    case = varied(subject, repeats=5, umask=("077",))
    assert len(subject.names) == 6 + 5
    assert case.cells[0].runs == 5


def test_a_difference_in_a_later_repeat_counts():
    case = varied(Subject(results={"umask=077-4": 1}), repeats=5, umask=("077",))
    assert (case.cells[0].effect, case.cells[0].differing, case.cells[0].runs) == (Effect.DIFFERS, 1, 5)


def test_the_distance_is_that_of_the_variation_and_not_of_another_with_the_same_value():
    subject = Subject(results={"hashseed=1": 1, "threads=1": 2})
    varied(subject, hashseed=("1",), threads=("1",))
    assert subject.measured == ["hashseed=1", "threads=1"]


def test_where_the_unvaried_runs_differ_nothing_is_varied():
    subject = Subject(results={"unvaried-2": 1})
    case = varied(subject, umask=("077",))
    assert "umask=077" not in subject.names
    assert case.cells[0].effect is Effect.NOT_JUDGED
    assert case.verdict is Verdict.FAIL
    assert case.claim == ""


def test_where_an_unvaried_run_differs_later_the_difference_before_says_nothing():
    subject = Subject(results={"umask=077": 1, "unvaried-after-umask=077": 2})
    case = varied(subject, umask=("077",), tz=("UTC-14",))
    assert {cell.variation: cell.effect for cell in case.cells} == {"tz": Effect.SAME, "umask": Effect.NOT_JUDGED}
    assert "distinct results" in case.reason


def test_a_condition_that_could_not_be_changed_is_not_judged_unless_the_bits_changed():
    case = varied(Subject(unchanged=("umask",)), umask=("077",), tz=("UTC-14",))
    assert [cell.effect for cell in case.cells] == [Effect.SAME, Effect.NOT_JUDGED]
    assert case.cells[1].reason == "it could not be changed: at its end the process still had 022"
    assert "not known under another umask" in case.claim
    case = varied(Subject(unchanged=("umask",), results={"umask=077": 1}), umask=("077",))
    assert case.cells[0].effect is Effect.DIFFERS


def test_what_the_unvaried_runs_have_already_is_not_made_and_starts_no_interpreter():
    subject = Subject()
    case = varied(subject, threads=("1", "2"), tz=("UTC-14",))
    assert [cell.effect for cell in case.cells] == [Effect.SAME, Effect.NOT_APPLICABLE, Effect.SAME]
    assert [start.variables.get("OMP_NUM_THREADS") for start in subject.prepared] == ["1", None]
    assert subject.prepared[1] == HELD.start


def test_a_variation_for_another_kind_of_device_is_none_of_this_case():
    assert varied(Subject(), tf32=("on",), umask=("077",)).cells[0].variation == "umask"


def test_a_reference_that_fails_is_not_repeated():
    subject = Subject(failures={"unvaried": "strict mode refused put_"})
    case = varied(subject, umask=("077",))
    assert subject.names == ["unvaried"]
    assert case.verdict is Verdict.REFUSED
    assert case.declared_refusal is None
    subject = Subject(
        failures={"unvaried": "strict mode refused put_"}, source=source("put", refused={"cpu": "a page"})
    )
    assert varied(subject, umask=("077",)).declared_refusal == "a page"


def test_a_varied_run_that_fails_is_repeated_and_told():
    subject = Subject(failures=dict.fromkeys(("umask=077", "umask=077-2", "umask=077-3"), "exit: 3"))
    case = varied(subject, umask=("077",))
    assert (case.cells[0].effect, case.cells[0].reason) == (Effect.FAILED, "exit: 3")
    assert case.verdict is Verdict.ERROR
    assert msgspec.structs.asdict(case.cells[0])["runs"] == 3
