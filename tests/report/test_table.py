import io
import re

import msgspec
import pytest
from rich.console import Console

from repro_audit.records import CaseCost, Cost, CublasWorkspace
from repro_audit.report.table import print_report
from tests import sample_reports
from tests.sample_reports import canaries, completed_case, distance, refused_case, report, skipped_case


def drawn(content, width=120, **options) -> str:
    stream = io.StringIO()
    print_report(content, Console(file=stream, width=width, highlight=False, **options))
    return stream.getvalue()


def words(text: str) -> str:
    return " ".join(text.split())


def row(text: str, name: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if re.match(rf"\s*{re.escape(name)}\s", line)]
    return line.split()


def test_a_case_that_repeats_is_a_row_of_yes():
    assert row(drawn(report([completed_case("one")])), "one") == [
        "one",
        "cpu",
        "PASS",
        "yes",
        "yes/yes",
        "0",
        "1.23",
        "s",
    ]


def test_the_two_claims_are_told_apart():
    text = drawn(report([completed_case("fresh", (0, 0, 1)), completed_case("same", (0, 1, 0))]))
    assert row(text, "fresh")[2:5] == ["FAIL", "yes", "yes/NO"]
    assert row(text, "same")[2:5] == ["FAIL", "yes", "NO/yes"]


def test_what_was_not_compared_is_never_shown_as_equal():
    assert row(drawn(report([refused_case("put")])), "put")[2:6] == ["REFUSED", "-", "-", "2"]


def test_the_worst_difference_names_size_and_leaf():
    assert "1 ULP, model/0.weight" in drawn(report([completed_case("race", (0, 1, 2), distance=distance())]))


@pytest.mark.parametrize("width", [80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width):
    assert max(len(line) for line in drawn(report(), width).splitlines()) <= width


@pytest.mark.parametrize("width", [80, 120, 200])
def test_every_name_verdict_and_digest_is_whole_at_every_width(width):
    content = report()
    text = drawn(content, width)
    for result in content.cases:
        assert result.case.workload in text
        assert result.verdict.value in text
        for comparison in result.comparisons:
            if comparison.divergence:
                assert comparison.divergence.first.removeprefix("sha256:") in text
                assert comparison.divergence.second.removeprefix("sha256:") in text


def test_the_canaries_stand_below_the_table():
    assert "canaries: one_ulp caught, unseeded caught, refused_op caught" in drawn(report())


def test_a_canary_that_was_missed_is_said_before_all_else():
    text = drawn(report([completed_case()], canaries(caught=False)))
    assert "unseeded NOT CAUGHT" in text
    assert "canary unseeded was not caught: this audit cannot be trusted" in text


def test_a_green_cpu_column_says_how_little_it_shows():
    assert "What a green CPU column does not show" in words(drawn(report([completed_case()])))


def test_an_audit_that_judged_nothing_on_a_cpu_says_nothing_of_it():
    assert "green CPU column" not in words(drawn(report([skipped_case()])))


@pytest.mark.parametrize(
    ("value", "source", "said"),
    [
        (":4096:8", "default", "CUBLAS_WORKSPACE_CONFIG=:4096:8: set by repro-audit; export it in your own jobs, too"),
        (":16:8", "option", "CUBLAS_WORKSPACE_CONFIG=:16:8: set by --cublas-workspace"),
        (":16:8", "environment", "CUBLAS_WORKSPACE_CONFIG=:16:8: your environment's own"),
        (None, "inherit", "CUBLAS_WORKSPACE_CONFIG is not set"),
    ],
)
def test_it_is_said_whose_cublas_setting_it_was(value, source, said):
    assert said in words(drawn(report(cublas_workspace=CublasWorkspace(value=value, source=source))))


def test_a_pass_is_worded_as_what_was_seen_with_its_bound():
    text = words(drawn(report([completed_case()], repeats=59)))
    assert "no divergence in 59 fresh-process repeats" in text
    assert "95 % confidence" in text
    assert "is deterministic" not in text


def test_the_statement_comes_last():
    content = report()
    assert drawn(content).rstrip().endswith(content.summary.statement)


def test_no_colour_is_needed_to_read_a_verdict():
    plain = drawn(report(), force_terminal=True, no_color=True)
    assert not re.search(r"\x1b\[(?:[0-9]+;)*(?:3[0-8]|4[0-8]|9[0-7])[;m]", plain)
    assert row(re.sub(r"\x1b\[[0-9;]*m", "", plain), "put")[2] == "REFUSED"


HOSTILE = "[bold]x[/bold][link=https://example.org]y\x1b]0;owned\x07\x1b[31m\x9b32m\u202edlrow\u2066"


@pytest.mark.parametrize("width", [80, 120])
def test_nothing_in_a_report_can_steer_the_terminal(width):
    content = report()
    hostile = msgspec.convert(_everywhere(msgspec.to_builtins(content), HOSTILE), type(content))
    text = drawn(hostile, width)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert "[bold]" in "".join(text.split())


def _everywhere(value, extra, name=""):
    """The value with something appended to every free text in it."""
    if isinstance(value, dict):
        return {key: _everywhere(item, extra, key) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_everywhere(item, extra, name) for item in value]
    free = {"workload", "reason", "detail", "text", "leaf", "path", "op", "found", "statement", "expectation", "notes"}
    return value + extra if isinstance(value, str) and name in free else value


def test_an_empty_report_is_drawn():
    assert sample_reports.report([]).summary.statement in drawn(sample_reports.report([]))


def test_what_the_environment_keeps_from_showing_is_said():
    blind = msgspec.structs.replace(report().environment, variables={"PYTHONHASHSEED": "0"}, flags={"num_threads": "1"})
    words = " ".join(drawn(msgspec.structs.replace(report(), environment=blind)).split())
    assert "PYTHONHASHSEED=0 in your environment: what depends on the order of sets could not show" in words
    assert "PyTorch had one CPU thread: races between threads could not show" in words
    seeing = " ".join(drawn(report()).split())
    assert "could not show" not in seeing


def test_the_cost_of_strict_mode_is_a_column_with_its_spread():
    whole = report([completed_case("one"), completed_case("two"), refused_case("put")])
    cost = Cost(pairs=5, time_ratio="1.50", time_low="1.40", time_high="1.64")
    costs = (
        CaseCost(case="one/cpu", time=cost, strict_bytes=3000, default_bytes=2000),
        CaseCost(case="two/cpu", time=None, strict_bytes=0, default_bytes=0),
    )
    text = drawn(msgspec.structs.replace(whole, volatile=msgspec.structs.replace(whole.volatile, costs=costs)))
    assert row(text, "one")[-1] == "1.50±0.12"
    assert row(text, "two")[-1] == "-"
    assert row(text, "put")[-1] == "-"
    assert "peak memory over that in default mode: 1.50 to 1.50" in words(text)
    assert "strict cost" not in words(drawn(whole))
