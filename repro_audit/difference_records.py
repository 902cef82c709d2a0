"""The data of `diff` and `reproduce`: two archives side by side."""

from enum import StrEnum

from repro_audit.records import Divergence, Loss, Record
from repro_audit.script_records import ScriptDivergence


class Bits(StrEnum):
    """How the bits of a case in one audit and in the other compare."""

    EQUAL = "equal"
    DIFFER = "differ"
    NOT_COMPARED = "not compared"
    """There are none in one of them, or they do not repeat even within it."""


class Changed(Record, frozen=True, kw_only=True):
    """A fact that is another one in the second audit."""

    name: str
    first: str | None
    """None where it is absent."""
    second: str | None
    condition: bool
    """Whether bits may depend on it: where such a fact differs, other bits are no finding."""


class CaseDifference(Record, frozen=True, kw_only=True):
    """A case in both audits."""

    case: str
    """``workload/device``, or the script."""
    first_verdict: str | None
    """As reports show it; None where the case is absent."""
    second_verdict: str | None
    bits: Bits
    reason: str = ""
    """Why bits were not compared."""
    divergence: Divergence | None = None
    """The first step and leaf where they part, of a workload."""
    script_divergence: ScriptDivergence | None = None
    """The same of a script."""
    loss_step: int | None = None
    """The first step whose losses differ; None where none do."""
    first_loss: Loss | None = None
    second_loss: Loss | None = None
    """Those losses."""
    alerts_gained: tuple[str, ...] = ()
    """Ops that only the second audit has alerts of."""
    alerts_lost: tuple[str, ...] = ()
    cells: tuple[Changed, ...] = ()
    """Of a `vary`: variations that have another effect."""

    @property
    def differs(self) -> bool:
        """Whether the second audit found anything else in this case than the first."""
        return (
            self.first_verdict != self.second_verdict
            or self.bits is Bits.DIFFER
            or bool(self.alerts_gained or self.alerts_lost or self.cells)
        )


class Difference(Record, frozen=True, kw_only=True):
    """Two audits side by side; where nothing differs, lists are empty."""

    first: str
    """Name of the archive."""
    second: str
    first_digest: str
    """Of the result; empty in evidence of schema 1."""
    second_digest: str
    environment: tuple[Changed, ...]
    settings: tuple[Changed, ...]
    subjects: tuple[Changed, ...]
    """Files of workloads, or the script, that have another digest."""
    cases: tuple[CaseDifference, ...]

    @property
    def same_result(self) -> bool:
        """Whether the digests of the results are equal."""
        return bool(self.first_digest) and self.first_digest == self.second_digest

    @property
    def conditions(self) -> tuple[Changed, ...]:
        """What differs and bits may depend on, in any case."""
        return tuple(one for one in (*self.environment, *self.settings, *self.subjects) if one.condition)

    def conditions_of(self, case: CaseDifference) -> tuple[Changed, ...]:
        """Those that the bits of one case may depend on: of the files its own alone."""
        own = (f"workload {case.case.rpartition('/')[0]}", f"script {case.case}")
        return tuple(one for one in self.conditions if one not in self.subjects or one.name in own)
