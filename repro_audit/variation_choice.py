"""Which variations are made: the words of ``--vary``, applied one after the other to those made by default."""

import difflib
from collections.abc import Sequence

from repro_audit.errors import UsageError
from repro_audit.variations import VARIATIONS, Variation, resolved

Chosen = dict[str, tuple[str, ...]]
"""Name of a variation to its values, in the order of the table."""


def chosen_variations(words: Sequence[str], *, of_script: bool = False) -> Chosen:
    """The variations that ``--vary`` asks for.

    Args:
        words: Each as it was given, items separated by commas: ``+name`` adds, ``-name`` leaves out, ``+all`` and
            ``-all`` do so with all, ``name=value:value`` adds with these values.
        of_script: Leaves out what no script can be put under.

    Raises:
        UsageError: An item is none of these, names no variation, or a value that it does not have; or none is left.
    """
    there = {one.name: one for one in VARIATIONS if one.for_scripts or not of_script}
    values = {name: resolved(one, one.values) for name, one in there.items() if one.by_default}
    for item in (item.strip() for word in words for item in word.split(",")):
        name, equals, given = item.lstrip("+-").partition("=")
        if item.startswith("-") and equals:
            raise UsageError(f"--vary {item!r} leaves a variation out and gives it values; write one of the two")
        if not name:
            raise UsageError(f"--vary {item!r} names no variation; write +NAME, -NAME or NAME=VALUE")
        if not equals and item[:1] not in ("+", "-"):
            raise UsageError(f"--vary {item!r} is no variation to add or to leave out; write +{item} or -{item}")
        names = list(there) if name == "all" and not equals else [_known(name, there)]
        for one in names:
            if item.startswith("-"):
                values.pop(one, None)
            else:
                values[one] = resolved(there[one], _values(there[one], given) if equals else there[one].values)
    if not values:
        raise UsageError("--vary leaves no variation; add one, as in --vary=+threads, or leave fewer out")
    return {name: values[name] for name in there if name in values}


def _known(name: str, there: dict[str, Variation]) -> str:
    if name in there:
        return name
    if any(one.name == name for one in VARIATIONS):
        raise UsageError(f"a script cannot be put under variation {name}; it is for workloads")
    near = difflib.get_close_matches(name, there, n=1)
    guess = f"did you mean {near[0]}? " if near else ""
    raise UsageError(f"there is no variation {name!r}; {guess}there are {', '.join(there)}")


def _values(variation: Variation, given: str) -> tuple[str, ...]:
    """The values of a list that is separated by colons; those that hold colons themselves are taken as they stand."""
    values = (given,) if variation.valid(given) else tuple(given.split(":"))
    for value in values:
        if not variation.valid(value):
            usual = ", ".join(variation.values)
            raise UsageError(f"variation {variation.name} cannot have the value {value!r}; it has {usual}")
    return values
