"""The audit under variations: hold all conditions, change one on purpose, look at the bits. Prints nothing."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Protocol

import msgspec

from repro_audit import __version__
from repro_audit.plan import Zygote
from repro_audit.records import Distance, Environment, Settings, Volatile, WorkloadSource
from repro_audit.script_records import ScriptSettings
from repro_audit.variation_choice import Chosen
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
from repro_audit.variation_verdict import (
    UNSETTLED,
    claim_of,
    judge_case,
    judge_cell,
    repeats_unvaried,
    summarize_variations,
)
from repro_audit.variations import HELD, Conditions, Facts, Start, Variation, read_cpu_flags

LEAST_REPEATS = 3
"""How often at least the unvaried run is repeated, and one under a variation that gave other bits is made."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """A run of a subject, as what it is compared by."""

    run: VariedRun
    """Compared with the reference run of the subject, and with no other."""
    conditions: dict[str, str]
    """As read back at its end; empty where it did not come so far."""


class Subject(Protocol):
    """What is put under variations: a workload on a device, or a script."""

    @property
    def name(self) -> str:
        """What a report calls it."""

    @property
    def device(self) -> str:
        """Where it runs; of a script, ``cpu``."""

    @property
    def device_types(self) -> tuple[str, ...]:
        """Of all that it may use."""

    @property
    def source(self) -> WorkloadSource | None:
        """Of a workload."""

    def prepare(self, starts: Iterable[Start]) -> None:
        """Has interpreters ready that are started so."""

    def make(self, name: str, zygote: Zygote, conditions: Conditions, variation: str, value: str) -> Made:
        """Makes a run; whatever becomes of it is in the result. The first one is the reference."""

    def how_far(self, run: VariedRun, conditions: Conditions) -> tuple[Distance | None, str]:
        """How far a run that differs is from the reference, by running both again; and a note where that is not so."""


@dataclass(kw_only=True)
class Varying:
    """Puts subjects under variations, one after the other."""

    chosen: Chosen
    table: Sequence[Variation]
    repeats: int
    environment: Environment
    cpu_flags: frozenset[str] = field(default_factory=read_cpu_flags)

    def case(self, subject: Subject) -> VariedCase:
        """Holds everything, then changes one condition at a time."""
        zygotes = cycle((Zygote.B, Zygote.A))
        reference = subject.make(UNVARIED, Zygote.A, HELD, UNVARIED, "")
        runs = [reference.run]
        if not reference.run.failure:
            runs += [
                subject.make(f"{UNVARIED}-{number}", next(zygotes), HELD, UNVARIED, "").run
                for number in range(1, max(self.repeats, LEAST_REPEATS) + 1)
            ]
        facts = Facts(
            environment=self.environment,
            held=reference.conditions,
            device=subject.device,
            source=subject.source,
            cpu_flags=self.cpu_flags,
        )
        planned = [self._planned(variation, value, facts) for variation, value in self._asked(subject.device_types)]
        settled = repeats_unvaried(runs)
        if settled:
            subject.prepare(variation.change(HELD, cell.value).start for variation, cell in planned if not cell.reason)
        cells: list[Cell] = []
        for variation, cell in planned:
            if cell.reason or not settled:
                cells.append(cell if cell.reason else msgspec.structs.replace(cell, reason=UNSETTLED))
            else:
                cells.append(self._cell(subject, variation, cell, facts, runs))
        cells = [judge_cell(cell, runs) for cell in cells]  # again, now that all unvaried runs are there
        verdict, reason = judge_case(runs, cells)
        return VariedCase(
            subject=subject.name,
            verdict=verdict,
            reason=reason,
            claim=claim_of(verdict, cells, reference.conditions),
            held=reference.conditions,
            runs=tuple(runs),
            cells=tuple(cells),
            declared_refusal=subject.source.refused.get(subject.device.partition(":")[0]) if subject.source else None,
        )

    def report(
        self,
        cases: Sequence[VariedCase],
        *,
        complete: bool,
        volatile: Volatile,
        settings: Settings | None = None,
        script: ScriptSettings | None = None,
        workloads: tuple[WorkloadSource, ...] = (),
    ) -> VariationReport:
        """The report on all cases, with either the settings of workloads or those of a script."""
        return VariationReport(
            variation_schema_version=VARIATION_SCHEMA_VERSION,
            tool={"name": "repro-audit", "version": __version__},
            settings=settings,
            script=script,
            variations=tuple(
                ChosenVariation(
                    name=one.name, values=self.chosen[one.name], expectation=one.expectation, source=one.source
                )
                for one in self.table
                if one.name in self.chosen
            ),
            environment=self.environment,
            workloads=workloads,
            cases=tuple(cases),
            summary=summarize_variations(cases, complete=complete),
            volatile=volatile,
        )

    def _asked(self, device_types: Sequence[str]) -> Iterator[tuple[Variation, str]]:
        for variation in self.table:
            if set(device_types) & set(variation.devices):
                for value in self.chosen.get(variation.name, ()):
                    yield variation, value

    def _planned(self, variation: Variation, value: str, facts: Facts) -> tuple[Variation, Cell]:
        """An empty cell, with the reason where it has to stay empty."""
        held = facts.held.get(variation.name)
        reason = variation.absent(facts, value)
        if not reason and held is not None and held.casefold() == value.casefold():
            reason = "the unvaried runs have it already"
        return variation, Cell(
            variation=variation.name,
            value=value,
            expectation=variation.expectation,
            effect=Effect.NOT_APPLICABLE if reason else Effect.NOT_JUDGED,
            reason=reason,
        )

    def _cell(self, subject: Subject, variation: Variation, cell: Cell, facts: Facts, runs: list[VariedRun]) -> Cell:
        """One variation's value: a run under it, and where that differs or fails, more of both kinds."""
        conditions = variation.change(HELD, cell.value)
        named = f"{variation.name}={cell.value}"
        zygotes = cycle((Zygote.A, Zygote.B))
        first = subject.make(named, next(zygotes), conditions, variation.name, cell.value)
        runs.append(first.run)
        suspicious = bool(first.run.failure or first.run.result)
        found, held = first.conditions.get(variation.name), facts.held.get(variation.name)
        if not suspicious and found is not None and found == held:
            return msgspec.structs.replace(
                cell, reason=f"it could not be changed: at its end the process still had {held}"
            )
        wanted = max(self.repeats, LEAST_REPEATS) if suspicious else self.repeats
        runs += [
            subject.make(f"{named}-{number}", next(zygotes), conditions, variation.name, cell.value).run
            for number in range(2, wanted + 1)
        ]
        if suspicious:
            # What differed by chance, and not by the variation, may differ now among the unvaried as well.
            runs.append(subject.make(f"{UNVARIED}-after-{named}", Zygote.B, HELD, UNVARIED, "").run)
        judged = judge_cell(msgspec.structs.replace(cell, effect=Effect.SAME), runs)
        own = [run for run in runs if (run.variation, run.value) == (cell.variation, cell.value)]
        differing = next((run for run in own if run.result > 0), None)
        if judged.effect is not Effect.DIFFERS or differing is None:
            return judged
        distance, note = subject.how_far(differing, conditions)
        return msgspec.structs.replace(judged, distance=distance, distance_note=note)
