"""The data of `repro-audit vary`: what was changed on purpose, what was held, and what the bits did."""

from enum import StrEnum

from repro_audit.records import (
    Configuration,
    Distance,
    Divergence,
    Environment,
    Record,
    Scope,
    Settings,
    Summary,
    Verdict,
    Volatile,
    WorkloadSource,
)
from repro_audit.script_records import ScriptDivergence, ScriptSettings

VARIATION_SCHEMA_VERSION = 2
"""Raised with every change that a reader of the previous version would refuse or misread."""

UNVARIED = "unvaried"
"""In the place of a variation's name: the run was made with all conditions held."""


class Expectation(StrEnum):
    """What a variation may do to the bits."""

    MUST_NOT_MATTER = "must not matter"
    """Other bits are a finding."""
    PART_OF_CLAIM = "part of the claim"
    """Other bits are recorded: the claim then holds for the value that was held."""


class Effect(StrEnum):
    """What a variation did."""

    SAME = "same"
    """The same bits, in every run that was made."""
    DIFFERS = "differs"
    """Other bits, while all unvaried runs gave the same."""
    FAILED = "failed"
    """The varied run did not come to its end, while the unvaried ones did."""
    NOT_JUDGED = "not judged"
    """The condition could not be changed, or what is unvaried does not repeat."""
    NOT_APPLICABLE = "not applicable"
    """Nothing here that the variation could change."""


class VariedRun(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One run of a case, in a process of its own."""

    name: str
    variation: str
    """`UNVARIED`, or what was changed."""
    value: str = ""
    failure: str = ""
    """Why it cannot be compared; empty where it can."""
    result: int = 0
    """Which of the case's distinct results it gave: 0 is the reference's. -1 where it cannot be compared."""
    digests: tuple[str, ...] = ()
    """Of a workload: digest of the state after ``setup``, then after each step."""
    divergence: Divergence | None = None
    """From the reference run, of a workload."""
    script_divergence: ScriptDivergence | None = None
    """From the reference run, of a script."""
    note: str = ""
    """What a reader of the evidence should know of this run, in words."""


class Cell(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A variation's value and a case: one cell of the matrix."""

    variation: str
    value: str
    expectation: Expectation
    effect: Effect
    runs: int = 0
    differing: int = 0
    """How many of them gave other bits than the reference run."""
    distinct: int = 0
    """How many distinct results they gave."""
    reason: str = ""
    """Why there is no judgement."""
    distance: Distance | None = None
    distance_note: str = ""


class VariedCase(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A workload on a device, or a script, under all variations."""

    subject: str
    """``workload/device``, or the script as it was named."""
    verdict: Verdict
    reason: str
    claim: str
    """What the runs support, with its conditions, in one sentence."""
    held: dict[str, str]
    """Condition to its value in the unvaried runs, as read back at the end of the first."""
    runs: tuple[VariedRun, ...]
    cells: tuple[Cell, ...]
    declared_refusal: str | None = None
    """The source that documents strict mode's refusal of this workload on this device."""


class ChosenVariation(Record, frozen=True, kw_only=True):
    """A variation that was asked for."""

    name: str
    values: tuple[str, ...]
    expectation: Expectation
    source: str


class VariationReport(Record, frozen=True, kw_only=True, omit_defaults=True):
    """Everything a `vary` found; its evidence file is this record."""

    variation_schema_version: int
    tool: dict[str, str]
    settings: Settings | None = None
    """Where workloads were varied."""
    script: ScriptSettings | None = None
    """Where a script was."""
    variations: tuple[ChosenVariation, ...]
    environment: Environment
    workloads: tuple[WorkloadSource, ...]
    cases: tuple[VariedCase, ...]
    summary: Summary
    volatile: Volatile
    configuration: Configuration | None = None
    scope: Scope | None = None
    """None in evidence of schema 1."""
    result_digest: str = ""
    """``sha256:<hex>`` of what was found, see `result_digest.result_of`; empty in evidence of schema 1."""
