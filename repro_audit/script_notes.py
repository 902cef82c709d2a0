"""What a reader of a script's report should know besides the verdict."""

from collections.abc import Iterator, Sequence

from repro_audit.recording import Recorded
from repro_audit.records import Mode
from repro_audit.script_records import THREADS_SUFFIX, Finished, Point, ScriptComparison, ScriptSettings


def notes_on(
    recorded: Sequence[Recorded], comparisons: Sequence[ScriptComparison], settings: ScriptSettings
) -> Iterator[str]:
    """Sentences, the most important first."""
    strict = [one for one in recorded if one.recording.mode is Mode.STRICT]
    if strict:
        yield from _processes(strict[0])
        yield from _unobserved(strict[0])
    for comparison in comparisons:
        yield from comparison.notes
    for variable, value in settings.variables.items():
        yield (
            f"the script sets {variable}={value} before it imports PyTorch: the interpreters were started with it, "
            "since it is read when PyTorch is loaded"
        )
    if settings.copied and settings.linked:
        shown = ", ".join(f"{path} ({reason})" for path, reason in list(settings.linked.items())[:5])
        more = len(settings.linked) - 5
        yield f"shared by all runs, not copied: {shown}" + (f" and {more} more" if more > 0 else "")
    if not settings.copied:
        yield "the runs shared the working directory: what one leaves there, the next may read"
    for one in recorded:
        yield from one.recording.notes


def _processes(one: Recorded) -> Iterator[str]:
    started = {remark.context["stream"]: remark.line for _, remark in one.remarks() if "stream" in remark.context}
    relaxed: dict[str, None] = {}
    cut_off: list[str] = []
    for name in one.stream_names:
        end = one.end(name)
        seen = list(one.observations(name))
        if any(observation.relaxed for observation in seen):
            relaxed[started.get(name.removesuffix(THREADS_SUFFIX), "")] = None
        if end is not None:
            yield from end.notes
        elif seen and isinstance(one.recording.outcome, Finished):
            cut_off.append(name)
    for line in relaxed:
        yield (
            f"a process that the script started at {line or 'an unknown line'} ran without strict mode, "
            "which spawned processes do not inherit: call torch.use_deterministic_algorithms(True) in it. "
            "Its results were compared all the same"
        )
    if cut_off:
        names = ", ".join(cut_off)
        yield f"ended from outside, as pools end their workers, so that their ends were not observed: {names}"
    programs = {
        (remark.line, remark.context.get("program", ""))
        for _, remark in one.remarks()
        if remark.point is Point.CHILD and remark.name == "program"
    }
    for line, program in sorted(programs):
        yield f"the program {program or 'unknown'}, started at {line}, was not observed"


def _unobserved(one: Recorded) -> Iterator[str]:
    failures: dict[str, str] = {}
    for name in one.stream_names:
        for observation in one.observations(name):
            for leaf, reason in observation.context.items():
                failures.setdefault(leaf, reason)
    for _, reason in list(failures.items())[:5]:
        yield f"not compared: {reason}"
    if len(failures) > 5:
        yield f"not compared: {len(failures) - 5} more leaves"


def first_non_finite(one: Recorded) -> tuple[int, str, str] | None:
    """The first loss that is NaN or infinite: its position among the losses of the main stream, text and line."""
    losses = (item for item in one.observations("main") if item.loss is not None)
    for number, item in enumerate(losses, start=1):
        if item.loss is not None and not item.loss.finite:
            return number, item.loss.text, item.line
    return None
