"""Judges a case from its varied runs: pure functions of the evidence."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from repro_audit.exit_codes import ExitCode
from repro_audit.records import Summary, Verdict
from repro_audit.variation_records import UNVARIED, Cell, Effect, Expectation, VariedCase, VariedRun
from repro_audit.variations import HELD_ON_PURPOSE, VARIATIONS

UNSETTLED = "the unvaried runs do not repeat, or cannot be judged"
"""Why a cell has no judgement where that is so."""

_WORDS = {variation.name: variation.words for variation in VARIATIONS}


def unvaried(runs: Sequence[VariedRun]) -> list[VariedRun]:
    """The runs with all conditions held."""
    return [run for run in runs if run.variation == UNVARIED]


def judge_cell(cell: Cell, runs: Sequence[VariedRun]) -> Cell:
    """The cell with what its runs show; one that has none keeps the reason for that.

    Args:
        runs: All runs of the case.
    """
    made = [run for run in runs if (run.variation, run.value) == (cell.variation, cell.value)]
    if not made or cell.effect in (Effect.NOT_JUDGED, Effect.NOT_APPLICABLE):
        return cell
    failed = [run for run in made if run.failure]
    compared = [run for run in made if not run.failure]
    differing = sum(run.result != 0 for run in compared)
    effect = Effect.DIFFERS if differing else Effect.FAILED if failed else Effect.SAME
    reason = failed[0].failure if failed else ""
    if differing and not repeats_unvaried(runs):
        effect, reason = Effect.NOT_JUDGED, UNSETTLED
    return msgspec.structs.replace(
        cell,
        effect=effect,
        runs=len(made),
        differing=differing,
        distinct=len({run.result for run in compared}),
        reason=reason,
    )


def repeats_unvaried(runs: Sequence[VariedRun]) -> bool:
    """Whether all runs with everything held came to their end with the same bits, two at least."""
    held = unvaried(runs)
    return len(held) > 1 and not any(run.failure or run.result for run in held)


def judge_case(runs: Sequence[VariedRun], cells: Sequence[Cell]) -> tuple[Verdict, str]:
    """The verdict on a case and the sentence that says why."""
    held = unvaried(runs)
    if not held or held[0].failure:
        failure = held[0].failure if held else "it was not run"
        refused = failure.startswith("strict mode refused")
        return (Verdict.REFUSED if refused else Verdict.ERROR), f"the unvaried run cannot be judged: {failure}"
    broken = [run for run in held if run.failure]
    results = {run.result for run in held if not run.failure}
    if len(results) > 1:
        return Verdict.FAIL, (
            f"{len(results)} distinct results in {len(held) - len(broken)} runs although all conditions were held"
        )
    if broken:
        return Verdict.ERROR, f"an unvaried run cannot be judged: {broken[0].failure}"
    matters = _named(cell for cell in cells if _is_finding(cell))
    if matters:
        return Verdict.FAIL, f"bits depend on what must not matter: {_listed(matters)}"
    failed = _named(cell for cell in cells if cell.effect is Effect.FAILED)
    if failed:
        return Verdict.ERROR, f"not every varied run came to its end: {_listed(failed)}"
    if len(held) < 2:
        return Verdict.ERROR, "the unvaried run was not repeated"
    judged = [cell for cell in cells if cell.effect in (Effect.SAME, Effect.DIFFERS)]
    if not judged:
        return Verdict.ERROR, "no variation could be made"
    return Verdict.PASS, f"nothing that must not matter changed a bit, in {len(runs)} runs"


def claim_of(verdict: Verdict, cells: Sequence[Cell], held: Mapping[str, str]) -> str:
    """What the runs support, with the conditions that it holds for; empty where they support nothing."""
    if verdict not in (Verdict.PASS, Verdict.FAIL) or not any(_is_varied(cell) for cell in cells):
        return ""
    differing = [cell for cell in cells if cell.effect is Effect.DIFFERS]
    part = _named(cell for cell in differing if cell.expectation is Expectation.PART_OF_CLAIM)
    broken = _named(cell for cell in differing if _is_finding(cell))
    unknown = _named(cell for cell in cells if cell.effect in (Effect.FAILED, Effect.NOT_JUDGED))
    others = {cell.variation for cell in cells if cell.effect is Effect.DIFFERS} | set(unknown)
    same = _named(cell for cell in cells if cell.effect is Effect.SAME and cell.variation not in others)
    never = [
        name
        for name, value in HELD_ON_PURPOSE.items()
        if held.get(name) == value and not any(cell.variation == name and _is_varied(cell) for cell in cells)
    ]
    needed = dict.fromkeys((*part, *broken, *never))
    conditions = [f"{_WORDS.get(name, name)}{_held_words(held.get(name))}" for name in needed]
    clauses = [f"reproducible on this machine with the same {_joined(conditions)}" if conditions else ""]
    if not conditions:
        clauses = ["reproducible on this machine"]
    if same:
        clauses.append(f"bits did not depend on {_listed(same)}")
    if broken:
        clauses.append(f"they must not depend on {_listed(broken)}, and do")
    if unknown:
        clauses.append(f"not known under another {_listed(unknown)}")
    return "; ".join(clauses)


def summarize_variations(cases: Sequence[VariedCase], *, complete: bool) -> Summary:
    """A `vary` in figures, with its exit code."""
    counts = {verdict: sum(case.verdict is verdict for case in cases) for verdict in Verdict}
    judged = len(cases) - counts[Verdict.SKIP]
    undeclared = sum(case.verdict is Verdict.REFUSED and case.declared_refusal is None for case in cases)
    if not complete:
        code, words = ExitCode.INTERRUPTED, "interrupted"
    elif counts[Verdict.FAIL] or undeclared:
        code, words = ExitCode.FINDING, "findings"
    elif counts[Verdict.ERROR]:
        code, words = ExitCode.INCOMPLETE, "incomplete"
    elif not judged:
        code, words = ExitCode.NOTHING, "nothing was varied"
    else:
        code, words = ExitCode.VERIFIED, "nothing that must not matter changed a bit"
    tally = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count)
    return Summary(
        counts=counts,
        exit_code=int(code),
        complete=complete,
        canaries_caught=False,
        statement=f"{words}: {tally or 'no case selected'}",
    )


def _is_varied(cell: Cell) -> bool:
    return cell.effect in (Effect.SAME, Effect.DIFFERS)


def _is_finding(cell: Cell) -> bool:
    return cell.effect is Effect.DIFFERS and cell.expectation is Expectation.MUST_NOT_MATTER


def _named(cells: Iterator[Cell]) -> list[str]:
    """The variations of the cells, each once."""
    return list(dict.fromkeys(cell.variation for cell in cells))


def _held_words(value: str | None) -> str:
    return f" ({value})" if value is not None else ""


def _listed(names: Sequence[str]) -> str:
    return _joined([_WORDS.get(name, name) for name in names])


def _joined(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
