"""Finds the first place where two recordings of a script part, from their observations alone."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, zip_longest

from repro_audit.recording import Recorded, source_line
from repro_audit.records import Role
from repro_audit.script_records import (
    MAIN_STREAM,
    THREADS_SUFFIX,
    Observation,
    Point,
    ScriptComparison,
    ScriptDivergence,
)

# What is computed first is the most telling: see `compare`.
_ORDER = (Role.LOSS, Role.GRADIENT, Role.VALUE, Role.PARAMETER, Role.BUFFER, Role.OPTIMIZER, Role.RNG)


_NUMBER = re.compile(r"#\d+")
"""Tells the second object of a class from the first that a process has met."""


@dataclass
class _Tally:
    """What was compared so far."""

    observations: int = 0
    results: int = 0
    losses: int = 0
    losses_equal: int = 0
    notes: list[str] = field(default_factory=list)


def compare_recordings(first: Recorded, second: Recorded) -> ScriptComparison:
    """Compares two recordings stream by stream.

    Processes are matched by the order in which they were started. Where work was handed to them in another order, as
    pools of workers do, what all of them showed together is compared instead; so are the threads of a process.

    Raises:
        EvidenceError: A stream is damaged.
    """
    tally = _Tally()
    divergences: list[ScriptDivergence] = []
    names = list(dict.fromkeys([MAIN_STREAM, *first.stream_names, *second.stream_names]))
    ordered = [name for name in names if not name.endswith(THREADS_SUFFIX)]
    children: list[ScriptDivergence] = []
    cut_off: list[str] = []
    for name in ordered:
        divergence, compared = _ordered(name, first, second, tally)
        if divergence is not None:
            (divergences if name == MAIN_STREAM else children).append(divergence)
        if compared is not None:
            cut_off.append(f"{name} ({compared} observations)")
    if children or cut_off:
        others = [name for name in ordered if name != MAIN_STREAM]
        if _shared_out_differently(others, first, second):
            tally.notes.append(
                "the processes of the script shared their work out differently; together they did the same, as far as "
                "it was compared: all but what each was left with at its end"
            )
        else:
            divergences += children
            if cut_off:
                told = ", ".join(cut_off)
                tally.notes.append(f"ended from outside, and compared as far as both runs had come: {told}")
    for name in names:
        if name.endswith(THREADS_SUFFIX):
            divergence = _unordered(name, first, second, tally)
            if divergence is not None:
                divergences.append(divergence)
    return ScriptComparison(
        first=first.recording.name,
        second=second.recording.name,
        observations=tally.observations,
        results=tally.results,
        losses=tally.losses,
        losses_equal=tally.losses_equal,
        divergence=divergences[0] if divergences else None,
        later=tuple(divergences[1:]),
        notes=tuple(tally.notes),
    )


def _of(recorded: Recorded, name: str) -> Iterator[Observation]:
    return recorded.observations(name) if name in recorded.stream_names else iter(())


def _ordered(name: str, first: Recorded, second: Recorded, tally: _Tally) -> tuple[ScriptDivergence | None, int | None]:
    """Compares two streams in lockstep.

    Returns:
        The first divergence; and how many observations could be compared, where one of the processes was ended before
        it had come as far as the other.
    """
    compared: int | None = None
    states: tuple[dict[str, str], dict[str, str]] = ({}, {})
    agreed: set[str] = set()
    steps = 0
    last_equal = -1
    found: ScriptDivergence | None = None
    cut_off = any(name in one.stream_names and one.end(name) is None for one in (first, second))
    for position, (one, other) in enumerate(zip_longest(_of(first, name), _of(second, name))):
        if one is None or other is None:
            if cut_off:
                compared = position
            elif found is None:
                found = _structure(name, position, steps, one, other, last_equal)
            break
        tally.observations += 1
        tally.results += one.point.shows_results and bool(one.leaves)
        if one.point is Point.LOSS:
            tally.losses += 1
            tally.losses_equal += _losses(one) == _losses(other)
        if found is None:
            found = _difference(name, position, steps, one, other, states, agreed, last_equal)
            if one.point is Point.STEP:
                steps += 1
                if one.complete and other.complete:
                    last_equal = position
    return found, compared


def _losses(observation: Observation) -> dict[str, str]:
    return {leaf: digest for leaf, digest in observation.leaves.items() if observation.roles.get(leaf) is Role.LOSS}


def _difference(
    stream: str,
    position: int,
    step: int,
    one: Observation,
    other: Observation,
    states: tuple[dict[str, str], dict[str, str]],
    agreed: set[str],
    last_equal: int,
) -> ScriptDivergence | None:
    if (one.point, one.name) != (other.point, other.name):
        return _structure(stream, position, step, one, other, last_equal)
    states[0].update(one.generators)
    states[1].update(other.generators)
    ours, theirs = dict(one.leaves), dict(other.leaves)
    if not (one.complete and other.complete):
        common = ours.keys() & theirs.keys()
        ours = {leaf: digest for leaf, digest in ours.items() if leaf in common}
        theirs = {leaf: digest for leaf, digest in theirs.items() if leaf in common}
    roles = {**other.roles, **one.roles}
    # A generator that never was equal has not been seeded, and need not be: what it gives is seen where it is used.
    for generator in {*states[0], *states[1]}:
        same = states[0].get(generator) == states[1].get(generator)
        if same:
            agreed.add(generator)
        if same or generator in agreed:
            leaf = f"generator/{generator}"
            ours[leaf], theirs[leaf] = states[0].get(generator, ""), states[1].get(generator, "")
            roles[leaf] = Role.RNG
    differing = [leaf for leaf in {**ours, **theirs} if ours.get(leaf) != theirs.get(leaf)]
    if not differing:
        return None
    if _file_and_line(one) != _file_and_line(other):
        return _structure(stream, position, step, one, other, last_equal)
    leaf = min(differing, key=lambda leaf: _ORDER.index(roles.get(leaf, Role.VALUE)))
    return ScriptDivergence(
        stream=stream,
        position=position,
        step=step,
        point=one.point,
        name=one.name,
        line=source_line(one.line),
        leaf=leaf,
        role=roles.get(leaf, Role.VALUE),
        first=ours.get(leaf),
        second=theirs.get(leaf),
        first_loss=one.loss,
        second_loss=other.loss,
        differing_leaves=len(differing),
        total_leaves=len({**ours, **theirs}),
        last_equal=last_equal,
    )


def _structure(
    stream: str, position: int, step: int, one: Observation | None, other: Observation | None, last_equal: int
) -> ScriptDivergence:
    there = one or other
    assert there is not None
    return ScriptDivergence(
        stream=stream,
        position=position,
        step=step,
        point=there.point,
        name=there.name,
        line=source_line(there.line),
        leaf=there.point.value,
        role=None,
        first=_did(one),
        second=_did(other),
        differing_leaves=1,
        total_leaves=1,
        last_equal=last_equal,
    )


def _did(observation: Observation | None) -> str | None:
    if observation is None:
        return None
    return f"{observation.point.value} of {observation.name}" + (f" at {observation.line}" if observation.line else "")


def _file_and_line(observation: Observation) -> str:
    """Where something was observed, for recordings that were made in different folders."""
    return observation.line.rpartition("/")[2]


def _key(observation: Observation) -> str:
    """An observation without what depends on which process or thread made it, and when."""
    leaves = " ".join(f"{leaf}={digest}" for leaf, digest in sorted(observation.leaves.items()))
    return _NUMBER.sub("", f"{observation.point.value} {observation.name} {_file_and_line(observation)} {leaves}")


def _shared_out_differently(names: list[str], first: Recorded, second: Recorded) -> bool:
    """Whether processes did the same together, but not each the same as its counterpart.

    What a process is left with at its end depends on what it was given to do, and says nothing here.
    """
    ours, theirs = ({name: _done(recorded, name) for name in names} for recorded in (first, second))
    return ours != theirs and Counter(chain(*ours.values())) == Counter(chain(*theirs.values()))


def _done(recorded: Recorded, name: str) -> list[str]:
    return [_key(one) for one in _of(recorded, name) if one.leaves and one.point is not Point.FINAL]


def _unordered(name: str, first: Recorded, second: Recorded, tally: _Tally) -> ScriptDivergence | None:
    """Compares what the threads of a process showed together."""
    ours, theirs = list(_of(first, name)), list(_of(second, name))
    tally.observations += min(len(ours), len(theirs))
    tally.results += sum(one.point.shows_results and bool(one.leaves) for one in ours)
    missing = Counter(map(_key, ours)) - Counter(map(_key, theirs))
    surplus = Counter(map(_key, theirs)) - Counter(map(_key, ours))
    if not missing and not surplus:
        return None
    one = next((observation for observation in ours if _key(observation) in missing), None)
    other = next((observation for observation in theirs if _key(observation) in surplus), None)
    if one is None or other is None or (one.point, one.name) != (other.point, other.name):
        return _structure(name, 0, 0, one, other, -1)
    leaf = next(iter(leaf for leaf in one.leaves if one.leaves[leaf] != other.leaves.get(leaf)), one.point.value)
    return ScriptDivergence(
        stream=name,
        position=0,
        step=0,
        point=one.point,
        name=one.name,
        line=source_line(one.line),
        leaf=leaf,
        role=one.roles.get(leaf, Role.VALUE),
        first=one.leaves.get(leaf),
        second=other.leaves.get(leaf),
        first_loss=one.loss,
        second_loss=other.loss,
        differing_leaves=1,
        total_leaves=len(one.leaves),
        last_equal=-1,
    )
