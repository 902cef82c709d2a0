"""What evidence claims, and what it does not, in words that stand in it."""

from repro_audit.bounds import bound_statement
from repro_audit.records import Mode, Scope, Settings, Verdict

NEVER_CLAIMED = (
    "that anything is deterministic: it tells what was seen in so many repeats",
    "the same bits on another release of PyTorch, another driver, another device or another number of threads",
    "the same bits on CPU and CUDA, which are never compared with each other",
    "that the results are right, or that others reach them with means of their own",
    "when and by whom it was made, beyond what a signature by a key that you trust says",
)
"""Of any evidence."""


def audit_scope(settings: Settings, verdicts: set[Verdict]) -> Scope:
    """The scope of an audit of workloads, or of an inventory.

    Args:
        verdicts: Those that were given.
    """
    if Mode.STRICT not in settings.modes:
        return Scope(
            claims=("which ops strict mode would have refused in a dry run with warn_only",),
            does_not_claim=("anything about repeatability: a dry run is never evidence of it", *NEVER_CLAIMED),
        )
    claims = [
        "each case with the verdict PASS gave the same bits in strict mode, on the recorded environment and with the "
        "recorded settings: losses, gradients, parameters, buffers, optimizer state, generators and all else that "
        f"its state() returned, after setup and after each of {settings.steps} steps, in two repeats in one process "
        f"and in {settings.repeats} fresh ones of another interpreter",
        "each verdict follows from the digests that stand here, by rules that can be applied again",
    ]
    if Verdict.PASS in verdicts:
        claims.append(bound_statement(settings.repeats))
    return Scope(claims=tuple(claims), does_not_claim=NEVER_CLAIMED)


def script_scope() -> Scope:
    """The scope of an audit of a script."""
    return Scope(
        claims=(
            "with the verdict PASS, the recorded runs of the script gave the same bits wherever they were looked at, "
            "each in a fresh process in strict mode, on the recorded environment and with the recorded settings",
            "the verdict follows from the recordings beside it, by rules that can be applied again",
        ),
        does_not_claim=("anything about what was not looked at: other programs, files outside", *NEVER_CLAIMED),
    )


def variation_scope() -> Scope:
    """The scope of a `vary`."""
    return Scope(
        claims=(
            "what each case says in its own claim, under the conditions that were held",
            "each verdict and claim follows from the runs that stand here, by rules that can be applied again",
        ),
        does_not_claim=("anything about conditions that were neither held nor varied", *NEVER_CLAIMED),
    )
