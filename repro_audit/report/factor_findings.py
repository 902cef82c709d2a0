"""What decides a divergence, as far as it was tested, in words."""

from collections.abc import Iterator, Sequence

from repro_audit.records import Factor, FactorTest
from repro_audit.report.finding import Finding, Level

_CAUSES = {
    Factor.CLOCK: "the clock",
    Factor.PROCESS: "the process id",
    Factor.ENTROPY: "entropy of the operating system, or a generator made without a seed",
    Factor.THREADS: "CPU threads working in parallel",
    Factor.HASH_SEED: "string hashes, which Python salts at each start: the order of a set, or hash()",
    Factor.ADDRESSES: "addresses of memory: id(), or the hash and order of objects that have none of their own",
}

_FIXED = {
    Factor.CLOCK: "the clock fixed",
    Factor.PROCESS: "the process id fixed",
    Factor.ENTROPY: "the operating system's entropy fixed",
    Factor.THREADS: "one thread",
    Factor.HASH_SEED: "PYTHONHASHSEED fixed",
    Factor.ADDRESSES: "the address layout fixed, and PYTHONHASHSEED, which alone does not do",
}

_NEXT_STEPS = {
    Factor.CLOCK: "seed from a constant, and let nothing depend on the time",
    Factor.PROCESS: "seed from a constant, not from os.getpid()",
    Factor.ENTROPY: "give every generator a seed: numpy.random.default_rng(seed), torch.Generator().manual_seed(seed)",
    Factor.THREADS: "look for in-place writes to views that alias, and for threads of your own that share tensors",
    Factor.HASH_SEED: "sort sets before iterating; never derive a number from hash()",
    Factor.ADDRESSES: "give objects an order of their own; never derive a number from id()",
}


def factor_findings(name: str, tests: Sequence[FactorTest]) -> Iterator[Finding]:
    """The factor that decides, and those that do not; nothing where none was tested.

    Args:
        name: What to call the case.
    """
    for test in tests:
        if test.decides:
            yield Finding(
                level=Level.FINDING,
                title=f"{name}: cause: {_CAUSES[test.factor]}",
                lines=(
                    f"with {_FIXED[test.factor]} {test.fixed_agreeing} of {test.fixed_pairs} pairs of repeats agree; "
                    f"let go again, {_ordinal(test.free_pairs)} pair differs",
                ),
                next_step=_NEXT_STEPS[test.factor],
            )
    others = [_not_decisive(test) for test in tests if not test.decides]
    if others:
        decided = any(test.decides for test in tests)
        yield Finding(
            level=Level.NOTE,
            title=f"{name}: "
            + ("what does not decide it" if decided else "no single factor that was tested decides it"),
            lines=tuple(others),
        )


def _not_decisive(test: FactorTest) -> str:
    if not test.fixed_pairs:
        return f"with {_FIXED[test.factor]}: not tested, the time for it was over (--budget)"
    if test.fixed_agreeing < test.fixed_pairs:
        return f"with {_FIXED[test.factor]} repeats still differ, {_ordinal(test.fixed_pairs)} pair"
    return (
        f"with {_FIXED[test.factor]} {test.fixed_agreeing} pairs agree, but so do {test.free_pairs} with nothing "
        "fixed: the divergence is too rare to tell"
    )


def _ordinal(number: int) -> str:
    words = ("", "the first", "the second", "the third")
    return words[number] if number < len(words) else f"the {number}th"
