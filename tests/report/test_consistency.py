import msgspec
import pytest

from repro_audit.records import Comparison, Factor, FactorTest, Pairing, RepeatName, State, Verdict
from repro_audit.report.consistency import contradictions, script_contradictions, variation_contradictions
from repro_audit.script_records import Finished
from repro_audit.variation_records import Effect, Expectation
from tests import sample_scripts, sample_variations
from tests.sample_reports import canaries, completed_case, inventoried_case, inventory, report, skipped_case


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
        (
            changed(runs=(), comparisons=(), states={}, roles={}),
            "it is PASS without a strict run",
        ),
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


def test_a_changed_verdict_is_noticed_whichever_way_it_was_changed():
    failed = msgspec.structs.replace(completed_case("one"), verdict=Verdict.FAIL)
    assert any("give the verdict PASS" in words for words in contradictions(report([failed])))
    diverged = completed_case("one", (0, 0, 1))
    passed = msgspec.structs.replace(diverged, verdict=Verdict.PASS)
    assert any("give the verdict FAIL" in words for words in contradictions(report([passed])))


def test_a_verdict_that_was_changed_together_with_its_comparisons_is_noticed():
    good, bad = completed_case("one"), completed_case("one", (0, 0, 1))
    forged = msgspec.structs.replace(bad, verdict=good.verdict, reason=good.reason, comparisons=good.comparisons)
    found = list(contradictions(report([forged])))
    assert found == ["case one/cpu: its comparisons are not what its runs give"]


def test_a_changed_summary_is_noticed():
    content = report()
    changed_summary = msgspec.structs.replace(content.summary, exit_code=0)
    found = list(contradictions(msgspec.structs.replace(content, summary=changed_summary)))
    assert found == ["the summary is not what the cases and canaries give"]


@pytest.mark.parametrize(
    "content",
    [
        report([skipped_case()], ()),
        report([completed_case()], canaries()[:1], complete=False),
        report([], (), complete=False),
        inventory([inventoried_case("mlp"), skipped_case("conv")]),
        inventory([skipped_case("conv")]),
        inventory([]),
    ],
)
def test_a_report_of_little_or_of_an_interrupted_audit_is_sound(content):
    assert list(contradictions(content)) == []


@pytest.mark.parametrize("content", [sample_scripts.report(), sample_scripts.failing()])
def test_a_sound_report_on_a_script_does_not_contradict_itself(content):
    assert list(script_contradictions(content)) == []


def changed_script(**fields):
    return msgspec.structs.replace(sample_scripts.failing(), **fields)


def changed_target(**fields):
    settings = sample_scripts.failing().settings
    return msgspec.structs.replace(settings, script=msgspec.structs.replace(settings.script, **fields))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (changed_script(verdict=Verdict.PASS), "give the verdict FAIL"),
        (changed_script(comparisons=(sample_scripts.comparison(),)), "give the verdict PASS"),
        (changed_script(recordings=sample_scripts.failing().recordings * 2), "two recordings have the same name"),
        (changed_script(comparisons=(sample_scripts.comparison("strict-b9"),)), "recordings that are not there"),
        (changed_script(comparisons=(sample_scripts.comparison(losses=99),)), "counts more than it compared"),
        (changed_script(comparisons=(sample_scripts.comparison(results=99),)), "counts more than it compared"),
        (changed_script(settings=changed_target(sha256="sha256:x")), "is no sha256 digest"),
        (
            changed_script(recordings=(sample_scripts.recording(outcome=Finished(exit_code=1)),)),
            "recordings that are not there",
        ),
        (changed_script(summary=sample_scripts.report().summary), "the summary is not what the verdict gives"),
    ],
)
def test_a_contradiction_in_a_report_on_a_script_is_named(content, words):
    assert any(words in found for found in script_contradictions(content))


def test_sound_reports_of_variations_do_not_contradict_themselves():
    assert list(variation_contradictions(sample_variations.report())) == []
    assert list(variation_contradictions(sample_variations.of_script())) == []


def varied(number: int = 0, **fields):
    """A report of variations whose case is changed."""
    whole = sample_variations.report()
    cases = list(whole.cases)
    cases[number] = msgspec.structs.replace(cases[number], **fields)
    return msgspec.structs.replace(whole, cases=tuple(cases))


def changed_run(changed: str, **fields):
    case = sample_variations.depends_on_the_time_zone()
    runs = [msgspec.structs.replace(run, **fields) if run.name == changed else run for run in case.runs]
    return varied(runs=tuple(runs))


def changed_cell(name: str, **fields):
    case = sample_variations.depends_on_the_time_zone()
    cells = [msgspec.structs.replace(cell, **fields) if cell.variation == name else cell for cell in case.cells]
    return varied(cells=tuple(cells))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (varied(verdict=Verdict.PASS), "its runs give the verdict FAIL"),
        (varied(reason="all is well"), "its runs give the verdict FAIL"),
        (varied(claim="always the same"), "its claim is not what its cells give"),
        (varied(runs=()), "it is FAIL without a run"),
        (varied(subject="broken/cpu"), "two cases have the same name"),
        (changed_run("tz=UTC-14", result=0), "run tz=UTC-14 contradicts itself about its result"),
        (changed_run("tz=UTC-14", result=0, divergence=None), "the result of run tz=UTC-14 is not what its digests"),
        (changed_run("tz=UTC-14", digests=()), "run tz=UTC-14 has no digests"),
        (changed_run("tz=UTC-14", digests=("sha256:0",)), "run tz=UTC-14 has something that is no sha256 digest"),
        (changed_run("hashseed=1", failure="no"), "run hashseed=1 contradicts itself"),
        (changed_run("hashseed=1", name="unvaried"), "two runs have the same name"),
        (changed_cell("tz", effect=Effect.SAME), "cell tz=UTC-14 is not what its runs give"),
        (changed_cell("tz", effect=Effect.NOT_JUDGED, reason="-"), "its runs give the verdict PASS"),
        (changed_cell("tz", expectation=Expectation.PART_OF_CLAIM), "variation tz is expected otherwise"),
        (
            msgspec.structs.replace(sample_variations.report(), settings=None),
            "it speaks of neither workloads nor a script",
        ),
        (
            msgspec.structs.replace(sample_variations.report(), summary=report().summary),
            "the summary is not what the cases give",
        ),
    ],
)
def test_a_report_of_variations_that_was_changed_contradicts_itself(content, words):
    assert any(words in found for found in variation_contradictions(content))


FACTOR = FactorTest(
    factor=Factor.THREADS,
    pairing=Pairing.FRESH_PROCESS,
    fixed_pairs=3,
    fixed_agreeing=3,
    free_pairs=1,
    free_differing=1,
)


@pytest.mark.parametrize(
    ("changes", "tests", "words"),
    [
        ((0, 0, 0), (FACTOR,), "factors were tested although nothing diverged"),
        ((0, 1, 1), (msgspec.structs.replace(FACTOR, fixed_agreeing=4),), "counts more pairs than it made"),
        ((0, 1, 1), (msgspec.structs.replace(FACTOR, free_differing=2),), "counts more pairs than it made"),
        ((0, 1, 1), (FACTOR, FACTOR), "factors were tested after the one that decides"),
    ],
)
def test_tests_of_factors_that_cannot_have_been_made_are_noticed(changes, tests, words):
    content = report([msgspec.structs.replace(completed_case("one", changes), factors=tests)])
    assert any(words in found for found in contradictions(content))


def test_tests_of_factors_after_a_divergence_are_no_contradiction():
    content = report([msgspec.structs.replace(completed_case("one", (0, 1, 1)), factors=(FACTOR,))])
    assert list(contradictions(content)) == []
