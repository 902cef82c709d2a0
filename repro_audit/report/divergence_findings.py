"""Where two repeats part, how far, and what to look for, in words."""

from collections.abc import Iterator

from repro_audit.records import CaseResult, Comparison, Divergence, DivergenceKind, Pairing, RepeatName
from repro_audit.report.factor_findings import factor_findings
from repro_audit.report.finding import Finding, Level, distinct_words, step_name
from repro_audit.report.location_findings import distance_lines, location_findings


def diverged(result: CaseResult) -> list[Comparison]:
    """The comparisons that found a divergence."""
    return [comparison for comparison in result.comparisons if comparison.divergence is not None]


def divergences(name: str, result: CaseResult) -> Iterator[Finding]:
    """One finding for each pairing whose repeats differ."""
    shown: set[Pairing] = set()
    found = diverged(result)
    for comparison in found:
        divergence = comparison.divergence
        if divergence is None or comparison.pairing in shown:
            continue
        shown.add(comparison.pairing)
        total = [one for one in result.comparisons if one.pairing is comparison.pairing]
        differing = sum(one.divergence is not None for one in total)
        title = f"{name}: {_pairing_words(comparison.pairing)} differ"
        if result.state_carried_over:
            title = f"{name}: state is carried over from the first repeat into the second"
        yield Finding(
            level=Level.FINDING,
            title=title,
            lines=(
                f"in {differing} of {len(total)} comparisons{distinct_words(result.runs, total)}; first seen "
                f"{step_name(divergence.step)}, "
                f"{divergence.kind.value}, leaf {divergence.leaf}",
                f"sha256 of {_side(comparison.first)} (first) and {_side(comparison.second)} (second):",
                f"first:  {hex_digits(divergence.first)}",
                f"second: {hex_digits(divergence.second)}",
                f"{divergence.differing_leaves} of {divergence.total_leaves} leaves of that step differ",
                *_distance_lines(divergence),
            ),
            next_step=_next_step(result, comparison, divergence),
        )
    yield from location_findings(result.location, name)
    yield from factor_findings(name, result.factors)


def _pairing_words(pairing: Pairing) -> str:
    return "repeats in the same process" if pairing is Pairing.SAME_PROCESS else "fresh processes"


def _side(name: RepeatName) -> str:
    return f"{name.run}, repeat {name.repeat + 1}"


def hex_digits(digest: str | None) -> str:
    """A digest without its algorithm: with it, an aligned pair does not fit into 80 columns."""
    return digest.removeprefix("sha256:") if digest else "absent"


def _distance_lines(divergence: Divergence) -> Iterator[str]:
    distance = divergence.distance
    if distance is not None:
        yield from distance_lines(distance)
    if divergence.distance_note:
        yield divergence.distance_note


def _next_step(result: CaseResult, comparison: Comparison, divergence: Divergence) -> str:
    if result.state_carried_over:
        return (
            "look for module-level state, caches and counters that outlive the first repeat; "
            "fresh processes agree, so this is no nondeterminism"
        )
    if divergence.distance_note.endswith("comes and goes"):
        return "repeat with --repeats 20 on a free machine to see how often it happens"
    if comparison.pairing is Pairing.FRESH_PROCESS and not any(
        one.divergence for one in result.comparisons if one.pairing is Pairing.SAME_PROCESS
    ):
        return "look for what a process has of its own: process id, string hashes (set order), addresses, the clock"
    if divergence.step == 0:
        return "setup differs already: look for generators that the seed does not reach, and the order of inputs"
    if divergence.kind is DivergenceKind.RNG:
        return "an extra or missing random draw: compare what each repeat draws"
    return (
        "look for generators that the seed does not reach, user threads, and in-place writes to views that alias; "
        "OMP_NUM_THREADS=1 tells whether threads matter"
    )
