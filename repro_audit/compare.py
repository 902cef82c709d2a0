"""Finds the first place where two repeats differ, from their digests alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from repro_audit.records import (
    Comparison,
    Completed,
    Divergence,
    DivergenceKind,
    Mode,
    Pairing,
    Repeat,
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
    def steps(self) -> Repeat:
        """What was seen in it."""
        return self.outcome.repeats[self.repeat]


def compare_runs(runs: Sequence[Run], states: States, roles: Mapping[str, Role]) -> tuple[Comparison, ...]:
    """Makes every comparison that the completed strict runs of a case allow.

    The first repeat of the reference run is compared with the other repeats in its process, and with the first
    repeat of every process of the other interpreter.

    Raises:
        KeyError: As for `compare`.
    """
    completed = {
        run.name: run.outcome for run in runs if run.mode is Mode.STRICT and isinstance(run.outcome, Completed)
    }
    reference = completed.get(REFERENCE_RUN)
    if reference is None:
        return ()
    first = Side(run=REFERENCE_RUN, outcome=reference, repeat=0)
    same = [Side(run=REFERENCE_RUN, outcome=reference, repeat=n) for n in range(1, len(reference.repeats))]
    fresh = [Side(run=name, outcome=outcome, repeat=0) for name, outcome in completed.items() if name != REFERENCE_RUN]
    return (
        *(compare(Pairing.SAME_PROCESS, first, second, states, roles) for second in same),
        *(compare(Pairing.FRESH_PROCESS, first, second, states, roles) for second in fresh),
    )


def compare(pairing: Pairing, first: Side, second: Side, states: States, roles: Mapping[str, Role]) -> Comparison:
    """Compares two repeats step by step, leaf by leaf.

    Args:
        states: The states that the steps of both name.
        roles: A role for every leaf of those states.

    Raises:
        KeyError: A step names a state that is not in `states`, or a leaf has no role.
    """
    divergence: Divergence | None = None
    loss_equal = state_equal = len(first.steps.steps) == len(second.steps.steps)
    if not state_equal:
        shorter = min(len(first.steps.steps), len(second.steps.steps))
        divergence = Divergence(
            kind=DivergenceKind.STRUCTURE,
            step=shorter,
            leaf=LOSS_LEAF,
            first=None,
            second=None,
            differing_leaves=1,
            total_leaves=1,
            distance_note="one repeat made fewer steps",
        )
    for one, other in zip(first.steps.steps, second.steps.steps, strict=False):
        if one.state == other.state and one.loss == other.loss:
            continue
        found = _first_difference(one.step, states[one.state], states[other.state], roles)
        loss_equal = loss_equal and one.loss == other.loss
        state_equal = state_equal and _without_loss(states[one.state]) == _without_loss(states[other.state])
        if divergence is None or divergence.step > found.step:
            divergence = found
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
