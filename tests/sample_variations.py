"""A report of a `vary` for tests: one case that must not depend on the time zone, and does; one that could not run."""

from collections.abc import Sequence

from repro_audit.finish import finish
from repro_audit.records import Divergence, DivergenceKind, SourceLine
from repro_audit.script_records import Point, ScriptDivergence
from repro_audit.variation_records import (
    UNVARIED,
    VARIATION_SCHEMA_VERSION,
    Cell,
    ChosenVariation,
    Effect,
    VariationReport,
    VariedCase,
    VariedRun,
)
from repro_audit.variation_verdict import claim_of, judge_case, judge_cell, summarize_variations
from repro_audit.variations import VARIATIONS
from tests import sample_reports, sample_scripts
from tests.builders import digest
from tests.sample_reports import distance

HELD = {"hashseed": "0", "aslr": "fixed", "tz": "UTC UTC", "threads": "2", "umask": "022", "malloc": "as it is"}

TABLE = {variation.name: variation for variation in VARIATIONS}

CHOSEN = tuple(
    ChosenVariation(name=name, values=values, expectation=TABLE[name].expectation, source=TABLE[name].source)
    for name, values in {
        "hashseed": ("1",),
        "threads": ("1", "2"),
        "tz": ("UTC-14",),
        "umask": ("077",),
        "tf32": ("on",),
    }.items()
)


def run(name: str, variation: str = UNVARIED, value: str = "", result: int = 0, failure: str = "") -> VariedRun:
    parted = Divergence(
        kind=DivergenceKind.PARAMETER,
        step=2,
        leaf="model/0.weight",
        first=digest("first"),
        second=digest("second"),
        differing_leaves=1,
        total_leaves=3,
    )
    return VariedRun(
        name=name,
        variation=variation,
        value=value,
        failure=failure,
        result=-1 if failure else result,
        digests=() if failure else (digest("setup"), digest(("step", result))),
        divergence=parted if result and not failure else None,
    )


def script_run(name: str, variation: str = UNVARIED, value: str = "", result: int = 0) -> VariedRun:
    parted = ScriptDivergence(
        stream="main",
        position=3,
        step=1,
        point=Point.LOSS,
        name="loss",
        line=SourceLine(path="/home/user/train.py", line=7, text="loss.backward()"),
        leaf="loss",
        role=None,
        first="a",
        second="b",
        differing_leaves=1,
        total_leaves=1,
        last_equal=2,
    )
    return VariedRun(
        name=name, variation=variation, value=value, result=result, script_divergence=parted if result else None
    )


UNVARIED_RUNS = (run("unvaried"), run("unvaried-1"))


def cell(name: str, value: str, effect: Effect = Effect.SAME, **fields: object) -> Cell:
    return Cell(variation=name, value=value, expectation=TABLE[name].expectation, effect=effect, **fields)


def case(subject: str, runs: Sequence[VariedRun], cells: Sequence[Cell]) -> VariedCase:
    judged = tuple(judge_cell(one, runs) for one in cells)
    verdict, reason = judge_case(runs, judged)
    return VariedCase(
        subject=subject,
        verdict=verdict,
        reason=reason,
        claim=claim_of(verdict, judged, HELD),
        held=HELD,
        runs=tuple(runs),
        cells=judged,
    )


def depends_on_the_time_zone() -> VariedCase:
    runs = (
        *UNVARIED_RUNS,
        run("hashseed=1", "hashseed", "1"),
        run("threads=1", "threads", "1", 1),
        run("tz=UTC-14", "tz", "UTC-14", 2),
        run("tz=UTC-14-2", "tz", "UTC-14", 3),
        run("umask=077", "umask", "077"),
    )
    cells = (
        cell("hashseed", "1"),
        cell("threads", "1", distance=distance()),
        cell("threads", "2", Effect.NOT_APPLICABLE, reason="the unvaried runs have it already"),
        cell("tz", "UTC-14"),
        cell("umask", "077"),
    )
    return case("model/cpu", runs, cells)


def fails() -> VariedCase:
    runs = (*UNVARIED_RUNS, run("umask=077", "umask", "077", failure="exception: ValueError: no"))
    return case("broken/cpu", runs, (cell("umask", "077"), cell("tz", "UTC-14", Effect.NOT_JUDGED, reason="why not")))


def good() -> VariedCase:
    return case("good/cpu", (*UNVARIED_RUNS, run("umask=077", "umask", "077")), (cell("umask", "077"),))


def report(cases: Sequence[VariedCase] | None = None) -> VariationReport:
    whole = sample_reports.report()
    cases = (depends_on_the_time_zone(), fails()) if cases is None else tuple(cases)
    return finish(
        VariationReport(
            variation_schema_version=VARIATION_SCHEMA_VERSION,
            tool=whole.tool,
            settings=whole.settings,
            variations=CHOSEN,
            environment=whole.environment,
            workloads=whole.workloads,
            cases=cases,
            summary=summarize_variations(cases, complete=True),
            volatile=whole.volatile,
        )
    )


def of_script() -> VariationReport:
    runs = (
        script_run("unvaried"),
        script_run("unvaried-1"),
        script_run("tz=UTC-14", "tz", "UTC-14", 1),
    )
    cases = (case("train.py", runs, (cell("tz", "UTC-14"),)),)
    whole = report()
    return finish(
        VariationReport(
            variation_schema_version=VARIATION_SCHEMA_VERSION,
            tool=whole.tool,
            script=sample_scripts.report().settings,
            variations=CHOSEN,
            environment=whole.environment,
            workloads=(),
            cases=cases,
            summary=summarize_variations(cases, complete=True),
            volatile=whole.volatile,
        )
    )
