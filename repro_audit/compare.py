"""Finds the first place where two repeats differ, from their digests alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from repro_audit.records import (
    Comparison,
    Completed,
    Divergence,
    DivergenceKind,
    Mode,
    Outcome,
    Pairing,
    RepeatName,
    Role,
    Run,
    States,
)

REFERENCE_RUN = "strict-a"
"""The run whose first repeat every other repeat is compared with."""

LOSS_LEAF = "loss"
"""The leaf under which a step's loss stands in its state."""

# A step computes the loss, then gradients, then what the optimizer writes; generators move all along. The earliest of
# these is the most telling place to name.
_ORDER = (
    DivergenceKind.LOSS,
    DivergenceKind.STRUCTURE,
    DivergenceKind.GRADIENT,
    DivergenceKind.VALUE,
    DivergenceKind.PARAMETER,
    DivergenceKind.BUFFER,
    DivergenceKind.OPTIMIZER,
    DivergenceKind.RNG,
)


@dataclass(frozen=True, kw_only=True)
class Side:
    """One repeat of a completed run: a run of another outcome cannot be compared, by type."""

    run: str
    outcome: Completed
    repeat: int

    @property
    def name(self) -> RepeatName:
        """How the evidence names it."""
        return RepeatName(run=self.run, repeat=self.repeat)

    @property
    def states(self) -> tuple[str, ...]:
        """Digests of what was there after ``setup`` and after each step."""
        return self.outcome.repeats[self.repeat].states


def compare_runs(runs: Sequence[Run], states: States, roles: Mapping[str, Role]) -> tuple[Comparison, ...]:
    """Makes every comparison that the completed strict runs of a case allow.

    The first repeat of the reference run is compared with the other repeats in its process, and with the first
    repeat of every process of the other interpreter.

    Raises:
        KeyError: As for `compare`.
    """
    completed = {
        run.name: run.outcome
        for run in runs
        if run.mode is Mode.STRICT and isinstance(run.outcome, Completed) and run.outcome.repeats
    }
    reference = completed.get(REFERENCE_RUN)
    if reference is None:
        return ()
    first = Side(run=REFERENCE_RUN, outcome=reference, repeat=0)
    fresh = [Side(run=name, outcome=outcome, repeat=0) for name, outcome in completed.items() if name != REFERENCE_RUN]
    return (
        *compare_repeats(REFERENCE_RUN, reference, states, roles),
        *(compare(Pairing.FRESH_PROCESS, first, second, states, roles) for second in fresh),
    )


def compare_repeats(run: str, outcome: Outcome, states: States, roles: Mapping[str, Role]) -> tuple[Comparison, ...]:
    """Compares the first repeat of a run with the other repeats in its process; nothing where it did not complete.

    Raises:
        KeyError: As for `compare`.
    """
    if not isinstance(outcome, Completed):
        return ()
    sides = [Side(run=run, outcome=outcome, repeat=n) for n in range(len(outcome.repeats))]
    return tuple(compare(Pairing.SAME_PROCESS, sides[0], second, states, roles) for second in sides[1:])


def compare(pairing: Pairing, first: Side, second: Side, states: States, roles: Mapping[str, Role]) -> Comparison:
    """Compares two repeats step by step, leaf by leaf.

    Args:
        states: The states that both name.
        roles: A role for every leaf of those states.

    Raises:
        KeyError: A repeat names a state that is not in `states`, or a leaf has no role.
    """
    divergence: Divergence | None = None
    loss_equal = state_equal = len(first.states) == len(second.states)
    for step, (one, other) in enumerate(zip(first.states, second.states, strict=False)):
        if one == other:
            continue
        ours, theirs = states[one].leaves, states[other].leaves
        loss_equal = loss_equal and ours.get(LOSS_LEAF) == theirs.get(LOSS_LEAF)
        state_equal = state_equal and _without_loss(ours) == _without_loss(theirs)
        divergence = divergence or _first_difference(step, ours, theirs, roles)
    if divergence is None and not state_equal:
        divergence = Divergence(
            kind=DivergenceKind.STRUCTURE,
            step=min(len(first.states), len(second.states)),
            leaf=LOSS_LEAF,
            first=None,
            second=None,
            differing_leaves=1,
            total_leaves=1,
            distance_note="one repeat made fewer steps",
        )
    return Comparison(
        pairing=pairing,
        first=first.name,
        second=second.name,
        loss_equal=loss_equal,
        state_equal=state_equal,
        divergence=divergence,
    )


def _without_loss(leaves: Mapping[str, str]) -> dict[str, str]:
    return {leaf: digest for leaf, digest in leaves.items() if leaf != LOSS_LEAF}


def _first_difference(
    step: int, first: Mapping[str, str], second: Mapping[str, str], roles: Mapping[str, Role]
) -> Divergence:
    union = [*first, *(leaf for leaf in second if leaf not in first)]
    differing = [leaf for leaf in union if first.get(leaf) != second.get(leaf)]

    def kind(leaf: str) -> DivergenceKind:
        return DivergenceKind(roles[leaf]) if leaf in first and leaf in second else DivergenceKind.STRUCTURE

    leaf = min(differing, key=lambda leaf: _ORDER.index(kind(leaf)))
    return Divergence(
        kind=kind(leaf),
        step=step,
        leaf=leaf,
        first=first.get(leaf),
        second=second.get(leaf),
        differing_leaves=len(differing),
        total_leaves=len(union),
    )
