"""The verdict on a script, from its recordings and comparisons alone."""

import pytest

from repro_audit.records import Breach, Failed, FailureKind, Mode, Refused, Verdict
from repro_audit.script_records import Finished
from repro_audit.script_verdict import judge_script, summarize_script
from tests.sample_reports import alert
from tests.sample_scripts import comparison, divergence, recording

REFUSED = Refused(alert=alert(count=1), repeat=0, detail="")
CRASHED = Failed(kind=FailureKind.EXCEPTION, detail="KeyError")
SLOW = Failed(kind=FailureKind.TIMEOUT, detail="")
BREACH = Breach(setting="cudnn.benchmark", expected="False", found="True", repeat=0, step=1, location=None)
DONE = Finished(exit_code=0)


def judged(outcomes=(DONE, DONE, DONE), comparisons=None, breaches=(), alerts=(), repeats=1):
    names = ("strict-a", "strict-b1", "warn_only")
    recordings = [
        recording(name, outcome=outcome, alerts=alerts if name == "warn_only" else ())
        for name, outcome in zip(names, outcomes, strict=True)
    ]
    comparisons = [comparison()] if comparisons is None else comparisons
    return judge_script(recordings, comparisons, breaches, repeats=repeats)


CASES = [
    ({}, Verdict.PASS, "no divergence in 2 fresh processes, at 12 points of each"),
    ({"comparisons": [comparison(divergence=divergence())]}, Verdict.FAIL, "1 of 1 runs differ from the first"),
    ({"breaches": (BREACH,)}, Verdict.FAIL, "undid strict mode: cudnn.benchmark was True"),
    ({"outcomes": (REFUSED, REFUSED, DONE)}, Verdict.REFUSED, "strict mode refused put_"),
    ({"alerts": (alert(),)}, Verdict.REFUSED, "the script caught the error in the strict run and went on"),
    ({"outcomes": (CRASHED,) * 3}, Verdict.ERROR, "run strict-a could not be judged: exception"),
    ({"outcomes": (Finished(exit_code=3),) * 3}, Verdict.ERROR, "ended with exit code 3 in run strict-a"),
    ({"outcomes": (DONE, DONE, CRASHED)}, Verdict.ERROR, "run warn_only could not be judged"),
    (
        {"outcomes": (DONE, CRASHED, DONE)},
        Verdict.FAIL,
        "the runs ended differently: strict-a completed, strict-b1 failed",
    ),
    ({"outcomes": (DONE, REFUSED, DONE)}, Verdict.FAIL, "the runs ended differently"),
    ({"outcomes": (DONE, Finished(exit_code=1), DONE)}, Verdict.FAIL, "the runs ended differently"),
    ({"outcomes": (DONE, SLOW, DONE)}, Verdict.ERROR, "timeout"),
    ({"comparisons": []}, Verdict.ERROR, "only 0 comparisons could be made"),
    ({"repeats": 2}, Verdict.ERROR, "only 1 comparisons could be made"),
    ({"comparisons": [comparison(observations=0, results=0)]}, Verdict.ERROR, "nothing could be observed"),
    ({"comparisons": [comparison(results=0)]}, Verdict.ERROR, "only the data it is given"),
]


@pytest.mark.parametrize(("fields", "verdict", "words"), CASES)
def test_the_verdict_and_its_reason(fields, verdict, words):
    found, reason = judged(**fields)
    assert found is verdict
    assert words in reason


def test_a_divergence_outweighs_how_the_runs_ended():
    diverged = [comparison(divergence=divergence())]
    assert judged(outcomes=(CRASHED,) * 3, comparisons=diverged)[0] is Verdict.FAIL


def test_one_run_of_many_that_differs_is_enough():
    comparisons = [comparison(), comparison("strict-b2", divergence=divergence()), comparison("strict-b3")]
    verdict, reason = judged(comparisons=comparisons, repeats=3)
    assert verdict is Verdict.FAIL
    assert "1 of 3 runs" in reason


@pytest.mark.parametrize("mode", [None, Mode.STRICT])
def test_recordings_made_alike_in_any_mode_are_judged(mode):
    made = [recording(name, mode=mode) for name in ("monday", "tuesday")]
    assert judge_script(made, [comparison()], (), repeats=1)[0] is Verdict.PASS
    ended = [recording("monday", mode=mode), recording("tuesday", mode=mode, outcome=CRASHED)]
    assert judge_script(ended, [comparison()], (), repeats=1)[0] is Verdict.FAIL


@pytest.mark.parametrize(
    ("verdict", "fields", "code"),
    [
        (Verdict.PASS, {}, 0),
        (Verdict.FAIL, {}, 1),
        (Verdict.REFUSED, {}, 1),
        (Verdict.ERROR, {}, 3),
        (Verdict.PASS, {"canary_caught": False}, 3),
        (Verdict.PASS, {"complete": False}, 130),
    ],
)
def test_the_exit_code_says_what_the_verdict_says(verdict, fields, code):
    summary = summarize_script(verdict, "why", **{"complete": True, "canary_caught": True, **fields})
    assert summary.exit_code == code
    assert summary.counts[verdict] == sum(summary.counts.values()) == 1


def test_an_audit_that_missed_its_canary_says_so():
    assert "cannot be trusted" in summarize_script(Verdict.PASS, "why", complete=True, canary_caught=False).statement
