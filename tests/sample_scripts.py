"""Recordings and reports of scripts for tests, the same on every machine."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from repro_audit.finish import finish
from repro_audit.recording import Recorded, found_streams
from repro_audit.recording_compare import compare_recordings
from repro_audit.records import (
    Alert,
    Breach,
    CublasWorkspace,
    Failed,
    Isolation,
    Location,
    Loss,
    Mode,
    Refused,
    Role,
    RunTiming,
    SourceLine,
    TracedOp,
)
from repro_audit.script_records import (
    RECORDING_SCHEMA_VERSION,
    Cause,
    CauseKind,
    Finished,
    Observation,
    Point,
    Recording,
    Script,
    ScriptComparison,
    ScriptDivergence,
    ScriptReport,
    ScriptSettings,
    StreamEnd,
    StreamItem,
)
from repro_audit.script_verdict import judge_script, summarize_script
from repro_audit.worker.observation.stream import StreamWriter
from tests.sample_reports import distance, environment, volatile

SCRIPT = Script(
    name="train.py",
    path="/home/user/train.py",
    is_module=False,
    arguments=("--epochs", "1"),
    sha256="sha256:" + "5" * 64,
)

LINE = SourceLine(path="/home/user/train.py", line=18, text="table.add_(rows)")

END = StreamEnd(strict=True, armed=True)


def observation(point: Point = Point.STEP, name: str = "opt", value: str = "0", **fields: object) -> Observation:
    """An observation whose one leaf has the digest of a letter or digit."""
    defaults: dict[str, object] = {"leaves": {"w": f"xxh3_128:{value * 32}"}, "line": "/home/user/train.py:9"}
    return Observation(point=point, name=name, **{**defaults, **fields})


def loss(value: str = "0", **fields: object) -> Observation:
    number = Loss(text=f"0.{value}", dtype="float32", bits="0x3f000000", finite=True)
    return observation(
        Point.LOSS,
        "backward",
        value,
        leaves={"loss": f"sha256:{value * 64}"},
        roles={"loss": Role.LOSS},
        loss=number,
        **fields,
    )


def recorded(folder: Path, streams: Mapping[str, Iterable[StreamItem]], **fields: object) -> Recorded:
    """A recording in a folder that holds what each stream shows."""
    folder.mkdir()
    for name, items in streams.items():
        writer = StreamWriter(folder, name)
        for item in items:
            writer.write(item)
    return Recorded(recording=recording(folder.name, streams=found_streams(folder), **fields), folder=folder)


def recording(name: str = "strict-a", **fields: object) -> Recording:
    defaults: dict[str, object] = {
        "mode": Mode.WARN_ONLY if name == "warn_only" else Mode.STRICT,
        "rank": None,
        "world_size": None,
        "outcome": Finished(exit_code=0),
        "streams": (),
    }
    return Recording(
        schema_version=RECORDING_SCHEMA_VERSION,
        tool={"name": "repro-audit", "version": "0.1.0"},
        name=name,
        script=SCRIPT,
        **{**defaults, **fields},
    )


def comparison(
    second: str = "strict-b1", divergence: ScriptDivergence | None = None, **fields: object
) -> ScriptComparison:
    defaults: dict[str, object] = {"observations": 12, "results": 8, "losses": 4, "losses_equal": 4}
    return ScriptComparison(first="strict-a", second=second, divergence=divergence, **{**defaults, **fields})


def divergence(**fields: object) -> ScriptDivergence:
    defaults: dict[str, object] = {
        "stream": "main",
        "position": 3,
        "step": 1,
        "point": Point.LOSS,
        "name": "backward",
        "line": LINE,
        "leaf": "loss",
        "role": Role.LOSS,
        "first": "sha256:" + "1" * 64,
        "second": "sha256:" + "2" * 64,
        "first_loss": Loss(text="0.5", dtype="float32", bits="0x3f000000", finite=True),
        "second_loss": Loss(text="0.25", dtype="float32", bits="0x3e800000", finite=True),
        "differing_leaves": 1,
        "total_leaves": 3,
        "last_equal": 2,
    }
    return ScriptDivergence(**{**defaults, **fields})


def op(sequence: int = 5, differs: str = "output 1") -> TracedOp:
    return TracedOp(
        sequence=sequence,
        op="aten.add_.Tensor",
        module="Net.encoder",
        line="/home/user/train.py:18",
        inputs="float32[8]",
        outputs="float32[8]",
        differs=differs,
    )


def location(**fields: object) -> Location:
    defaults: dict[str, object] = {
        "agreed": False,
        "kind": "kernel",
        "statement": "aten.add_.Tensor is the first op whose inputs are equal, bit for bit, and whose outputs differ",
        "first": op(),
        "second": op(6),
        "line": LINE,
        "context": (op(4, ""),),
        "distance": distance(),
        "later": (op(9),),
        "later_count": 2,
        "ops": 120,
        "window": "the whole run",
    }
    return Location(**{**defaults, **fields})


def report(
    *,
    outcomes: Sequence[Finished | Refused | Failed] = (Finished(exit_code=0),) * 3,
    comparisons: Sequence[ScriptComparison] | None = None,
    alerts: tuple[Alert, ...] = (),
    breaches: tuple[Breach, ...] = (),
    complete: bool = True,
    canary_caught: bool = True,
    **fields: object,
) -> ScriptReport:
    """A report of two strict runs and the warn_only run."""
    comparisons = (comparison(),) if comparisons is None else tuple(comparisons)
    names = ("strict-a", "strict-b1", "warn_only")
    recordings = tuple(
        recording(name, outcome=outcome, alerts=alerts if name == "warn_only" else ())
        for name, outcome in zip(names, outcomes, strict=True)
    )
    verdict, reason = judge_script(recordings, comparisons, breaches, repeats=1)
    defaults: dict[str, object] = {"location": None, "causes": (), "tests": (), "notes": ()}
    return finish(
        ScriptReport(
            script_schema_version=RECORDING_SCHEMA_VERSION,
            tool={"name": "repro-audit", "version": "0.1.0"},
            settings=ScriptSettings(
                script=SCRIPT,
                working_directory="/home/user",
                copied=True,
                linked={},
                repeats=1,
                timeout_ms=60_000,
                isolation=Isolation.FORK,
                cublas_workspace=CublasWorkspace(value=":4096:8", source="default"),
                variables={},
            ),
            environment=environment(),
            recordings=recordings,
            comparisons=comparisons,
            verdict=verdict,
            reason=reason,
            breaches=breaches,
            summary=summarize_script(verdict, reason, complete=complete, canary_caught=canary_caught),
            volatile=volatile(tuple(RunTiming(case="train.py", run=name, pid=4242, duration_ms=410) for name in names)),
            **{**defaults, **fields},
        )
    )


def failing() -> ScriptReport:
    """A report with everything that a finding can have."""
    return report(
        comparisons=(comparison(divergence=divergence(), losses_equal=1),),
        location=location(),
        causes=(Cause(kind=CauseKind.OVERLAP, statement="it races", proof="two traced runs", line=LINE),),
        tests=("with all seeded: the runs still differ",),
        notes=("the program true was not observed",),
    )


def compared(folder: Path, first: Iterable[StreamItem], second: Iterable[StreamItem]) -> ScriptComparison:
    """Two recordings of one process, compared."""
    return compare_recordings(recorded(folder / "a", {"main": first}), recorded(folder / "b", {"main": second}))
