import pytest

from repro_audit.compare import compare_runs
from repro_audit.exit_codes import ExitCode
from repro_audit.records import CanaryResult, Case, CaseResult, FailureKind, Verdict
from repro_audit.verdict import judge, summarize, summarize_inventory
from tests.builders import LEAVES, ROLES, Book, alert, breach, failed, refused, run

GOOD = [LEAVES, LEAVES]
OTHER = [LEAVES, {**LEAVES, "model/weight": 1}]


def judged(a=(GOOD, GOOD), b=(GOOD,), *, warn_only=None, fresh_processes=1, carried=False, **replaced):
    book = Book()
    runs = [
        run("strict-a", book.completed(*a)),
        *(run(f"strict-b{n}", book.completed(steps)) for n, steps in enumerate(b, 1)),
        warn_only or run("warn_only", book.completed(GOOD)),
    ]
    runs = [replaced.get(one.name.replace("-", "_"), one) for one in runs]
    comparisons = compare_runs(runs, book.states, ROLES)
    return judge(runs, comparisons, fresh_processes=fresh_processes, state_carried_over=carried)


def test_equal_repeats_pass_and_the_reason_says_what_was_seen():
    assert judged() == (Verdict.PASS, "no divergence in 2 repeats, 2 processes")


def test_more_fresh_processes_are_counted_in_the_reason():
    assert judged(b=(GOOD, GOOD, GOOD), fresh_processes=3) == (
        Verdict.PASS,
        "no divergence in 4 repeats, 4 processes",
    )


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ((GOOD, OTHER), (GOOD,), "two repeats in the same process differ"),
        ((GOOD, GOOD), (OTHER,), "fresh processes differ"),
        ((GOOD, OTHER), (OTHER,), "repeats in the same process and in fresh processes differ"),
    ],
)
def test_a_divergence_fails(a, b, reason):
    assert judged(a, b) == (Verdict.FAIL, reason)


def test_one_diverging_process_of_many_fails():
    assert judged(b=(GOOD, GOOD, OTHER), fresh_processes=3)[0] is Verdict.FAIL


def test_state_carried_over_is_named_as_that():
    verdict, reason = judged((GOOD, OTHER), carried=True)
    assert verdict is Verdict.FAIL
    assert reason.startswith("state carried over")


def test_undoing_strict_mode_fails_although_all_bits_are_equal():
    book = Book()
    verdict, reason = judged(strict_a=run("strict-a", book.completed(GOOD, GOOD), breaches=(breach(),)))
    assert verdict is Verdict.FAIL
    assert "undid strict mode" in reason


def test_undoing_strict_mode_in_a_run_that_then_failed_is_still_a_finding():
    assert judged(strict_b1=run("strict-b1", failed(), breaches=(breach(),)))[0] is Verdict.FAIL


def test_a_refusal_is_refused():
    assert judged(strict_a=run("strict-a", refused()), strict_b1=run("strict-b1", refused())) == (
        Verdict.REFUSED,
        "strict mode refused put_",
    )


def test_a_refusal_in_one_process_only_is_a_divergence():
    verdict, reason = judged(strict_b1=run("strict-b1", refused()))
    assert verdict is Verdict.FAIL
    assert "differs between runs" in reason


def test_an_alert_that_the_strict_run_never_raised_is_refused_not_passed():
    book = Book()
    verdict, reason = judged(warn_only=run("warn_only", book.completed(GOOD), alerts=(alert(),)))
    assert verdict is Verdict.REFUSED
    assert "caught the error" in reason


def test_an_alert_of_attention_is_no_refusal_since_strict_mode_takes_another_kernel():
    book = Book()
    warned = run("warn_only", book.completed(GOOD), alerts=(alert("Memory Efficient attention"),))
    assert judged(warn_only=warned)[0] is Verdict.PASS


@pytest.mark.parametrize("name", ["strict-a", "strict-b1", "warn_only"])
@pytest.mark.parametrize("kind", list(FailureKind))
def test_a_run_that_cannot_be_judged_is_an_error_whichever_it_is(name, kind):
    verdict, reason = judged(**{name.replace("-", "_"): run(name, failed(kind))})
    assert verdict is Verdict.ERROR
    assert name in reason
    assert kind.value in reason


def test_a_divergence_outranks_a_failed_run():
    assert judged(b=(OTHER,), warn_only=run("warn_only", failed()))[0] is Verdict.FAIL


def test_fewer_comparisons_than_asked_for_never_pass():
    assert judged(fresh_processes=2)[0] is Verdict.ERROR
    assert judged(b=(), fresh_processes=0)[0] is Verdict.ERROR
    assert judged(a=(GOOD,))[0] is Verdict.ERROR


def result(verdict: Verdict, declared: str | None = None) -> CaseResult:
    return CaseResult(
        case=Case(workload="mlp", device="cpu"),
        verdict=verdict,
        reason="because",
        declared_refusal=declared,
        state_carried_over=False,
        runs=(),
        confirmations=(),
        comparisons=(),
        states={},
        roles={},
    )


def canary(*, caught: bool = True) -> CanaryResult:
    return CanaryResult(name="one_ulp", caught=caught, expectation="", seen="", result=result(Verdict.FAIL))


def exit_code(*results: CaseResult, caught: bool = True, complete: bool = True) -> int:
    return summarize(results, [canary(caught=caught)], complete=complete, canaries_expected=1).exit_code


PASS, FAIL, ERROR, SKIP = (result(Verdict[name]) for name in ("PASS", "FAIL", "ERROR", "SKIP"))
REFUSED, DECLARED = result(Verdict.REFUSED), result(Verdict.REFUSED, "https://docs.pytorch.org")


def test_each_exit_code_means_one_thing():
    assert exit_code(PASS) == ExitCode.VERIFIED
    assert exit_code(PASS, SKIP) == ExitCode.VERIFIED
    assert exit_code(PASS, DECLARED) == ExitCode.VERIFIED
    assert exit_code(PASS, FAIL) == ExitCode.FINDING
    assert exit_code(PASS, REFUSED) == ExitCode.FINDING
    assert exit_code(PASS, ERROR) == ExitCode.INCOMPLETE
    assert exit_code(SKIP) == ExitCode.NOTHING
    assert exit_code() == ExitCode.NOTHING
    assert exit_code(PASS, complete=False) == ExitCode.INTERRUPTED


def test_a_finding_outranks_an_incomplete_run():
    assert exit_code(FAIL, ERROR) == ExitCode.FINDING
    assert exit_code(REFUSED, ERROR) == ExitCode.FINDING


def test_a_canary_that_was_not_caught_makes_the_audit_incomplete_and_says_so():
    summary = summarize([PASS], [canary(caught=False)], complete=True, canaries_expected=1)
    assert summary.exit_code == ExitCode.INCOMPLETE
    assert "cannot be trusted" in summary.statement


def test_a_canary_that_never_ran_counts_as_not_caught():
    summary = summarize([PASS], [], complete=True, canaries_expected=1)
    assert summary.exit_code == ExitCode.INCOMPLETE
    assert not summary.canaries_caught


def test_the_statement_counts_every_verdict():
    summary = summarize([PASS, PASS, DECLARED, SKIP], [canary()], complete=True, canaries_expected=1)
    assert summary.statement == "no divergence seen: 2 PASS, 1 REFUSED, 1 SKIP; 1 refused as documented"


def test_an_inventory_has_no_verdict_but_is_incomplete_with_an_error():
    made = CaseResult(
        **{field: getattr(SKIP, field) for field in SKIP.__struct_fields__ if field != "runs"},
        runs=(run("warn_only", Book().completed(GOOD), alerts=(alert(), alert("histc"))),),
    )
    summary = summarize_inventory([made], complete=True)
    assert summary.exit_code == ExitCode.VERIFIED
    assert "6 alerts of 2 ops" in summary.statement
    assert summarize_inventory([made, ERROR], complete=True).exit_code == ExitCode.INCOMPLETE
    assert summarize_inventory([SKIP], complete=True).exit_code == ExitCode.NOTHING
    assert summarize_inventory([made], complete=False).exit_code == ExitCode.INTERRUPTED
