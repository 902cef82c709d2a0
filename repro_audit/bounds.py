"""What so many repeats without divergence support."""

import math

CONFIDENCE = 0.95


def upper_bound(repeats: int) -> float:
    """Largest divergence rate that so many repeats without divergence leave possible, at 95 % confidence.

    The exact binomial (Clopper-Pearson) bound for no event in `repeats` trials, ``1 - 0.05 ** (1 / repeats)``.
    """
    return 1.0 - math.pow(1.0 - CONFIDENCE, 1.0 / repeats)


def percentage(rate: float) -> str:
    """A rate of up to 1 in percent, with two digits."""
    return f"{100 * rate:.2g}"


def bound_statement(repeats: int) -> str:
    """What that many fresh processes without divergence support."""
    return (
        f"no divergence in {repeats} fresh-process repeat{'s' if repeats > 1 else ''} supports, with 95 % confidence, "
        f"a divergence rate below {percentage(upper_bound(repeats))} %; --repeats N lowers that bound"
    )
