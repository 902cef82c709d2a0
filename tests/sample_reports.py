"""Whole reports for tests, the same on every machine and at any hour."""

import hashlib
from collections.abc import Sequence

import msgspec

from repro_audit.compare import compare_runs
from repro_audit.digests import state_digest
from repro_audit.finish import finish
from repro_audit.records import (
    SCHEMA_VERSION,
    Alert,
    AuditReport,
    Breach,
    CanaryResult,
    Case,
    CaseResult,
    Completed,
    CublasWorkspace,
    Device,
    Distance,
    Environment,
    Failed,
    FailureKind,
    Isolation,
    Loss,
    Mode,
    Phase,
    Refused,
    Repeat,
    Role,
    Run,
    RunTiming,
    Settings,
    SourceLine,
    State,
    States,
    Verdict,
    Volatile,
    WorkloadSource,
)
from repro_audit.verdict import judge, summarize, summarize_inventory

ROLES = {"loss": Role.LOSS, "model/0.weight": Role.PARAMETER, "rng/torch": Role.RNG}

TRACEBACK = 'Traceback (most recent call last):\n  File "/home/user/broken.py", line 9, in step\nValueError: no\n'

LINE = SourceLine(path="/home/user/put.py", line=12, text="self.table.put_(index, values)")


def digest(value: object) -> str:
    return f"sha256:{hashlib.sha256(repr(value).encode()).hexdigest()}"


def loss(text: str = "0.5", *, finite: bool = True) -> Loss:
    return Loss(text=text, dtype="float32", bits="0x3f000000" if finite else "0x7fc00000", finite=finite)


def repeat(states: States, weight: int = 0, *, last_loss: Loss | None = None) -> Repeat:
    """Setup and two steps; the weight's bits after the last are those of `weight`."""
    digests = []
    for number in range(3):
        leaves = {"model/0.weight": digest(("weight", number, weight if number == 2 else 0)), "rng/torch": digest(1)}
        if number:
            leaves["loss"] = digest(("loss", number))
        key = state_digest(leaves)
        states[key] = State(loss=(last_loss or loss()) if number else None, leaves=leaves)
        digests.append(key)
    return Repeat(states=tuple(digests))


def alert(op: str = "put_", **fields: object) -> Alert:
    defaults: dict[str, object] = {
        "message": f"{op} does not have a deterministic implementation",
        "phase": Phase.FORWARD,
        "step": 1,
        "count": 2,
        "location": LINE,
        "forward_location": None,
    }
    return Alert(op=op, **{**defaults, **fields})


def run(name: str, outcome: Completed | Refused | Failed, **fields: object) -> Run:
    mode = Mode(name) if name in list(Mode) else Mode.STRICT
    return Run(name=name, mode=mode, repeats=2 if name == "strict-a" else 1, outcome=outcome, **fields)


def case(
    name: str,
    runs: Sequence[Run],
    states: States | None = None,
    *,
    device: str = "cpu",
    distance: Distance | None = None,
    declared: str | None = None,
    carried_over: bool = False,
) -> CaseResult:
    """A case with the comparisons and the verdict that its runs give."""
    states = states or {}
    comparisons = tuple(
        msgspec.structs.replace(
            comparison, divergence=msgspec.structs.replace(comparison.divergence, distance=distance)
        )
        if comparison.divergence
        else comparison
        for comparison in compare_runs(runs, states, ROLES)
    )
    verdict, reason = judge(runs, comparisons, fresh_processes=1, state_carried_over=carried_over)
    return CaseResult(
        case=Case(workload=name, device=device),
        verdict=verdict,
        reason=reason,
        declared_refusal=declared,
        state_carried_over=carried_over,
        runs=tuple(runs),
        confirmations=(),
        comparisons=comparisons,
        states=states,
        roles=ROLES if states else {},
    )


def completed_case(name: str = "mlp", weights: Sequence[int] = (0, 0, 0), **fields: object) -> CaseResult:
    """A case whose three repeats (two of strict-a, one of strict-b1) end with these weights."""
    states: States = {}
    first, second, fresh = (repeat(states, weight) for weight in weights)
    runs = [
        run("strict-a", Completed(repeats=(first, second)), seeded=("python", "torch")),
        run("strict-b1", Completed(repeats=(fresh,)), seeded=("python", "torch")),
        run("warn_only", Completed(repeats=(repeat(states),))),
    ]
    return case(name, runs, states, **fields)


def distance() -> Distance:
    return Distance(
        dtype="float32",
        shape=(64, 32),
        elements=2048,
        differing=3,
        max_absolute="1.1920929e-07",
        max_ulp="1",
        first_index=(0, 5),
        first_value="0.25",
        second_value="0.25000003",
    )


def refused_case(name: str = "put", **fields: object) -> CaseResult:
    states: States = {}
    refusal = Refused(alert=alert(count=1), repeat=0, detail="RuntimeError: put_ does not have ...")
    runs = [
        run("strict-a", refusal),
        run("strict-b1", refusal),
        run("warn_only", Completed(repeats=(repeat(states),)), alerts=(alert(),)),
    ]
    return case(name, runs, states, **fields)


def failed_case(kind: FailureKind = FailureKind.EXCEPTION, name: str = "broken", detail: str = TRACEBACK) -> CaseResult:
    failure = Failed(kind=kind, detail=detail, exit_code=0)
    return case(name, [run("strict-a", failure), run("strict-b1", failure), run("warn_only", failure)])


def breached_case(name: str = "undoes") -> CaseResult:
    states: States = {}
    one = repeat(states)
    breach = Breach(setting="cudnn.benchmark", expected="False", found="True", repeat=0, step=1, location=LINE)
    runs = [
        run("strict-a", Completed(repeats=(one, one)), breaches=(breach,)),
        run("strict-b1", Completed(repeats=(one,)), breaches=(breach,)),
        run("warn_only", Completed(repeats=(one,))),
    ]
    return case(name, runs, states)


def skipped_case(name: str = "mlp", reason: str = "no cuda device: built without CUDA") -> CaseResult:
    return CaseResult(
        case=Case(workload=name, device="cuda:0"),
        verdict=Verdict.SKIP,
        reason=reason,
        declared_refusal=None,
        state_carried_over=False,
        runs=(),
        confirmations=(),
        comparisons=(),
        states={},
        roles={},
    )


def non_finite_case(name: str = "diverges") -> CaseResult:
    states: States = {}
    one = repeat(states, last_loss=loss("nan", finite=False))
    runs = [
        run("strict-a", Completed(repeats=(one, one))),
        run("strict-b1", Completed(repeats=(one,))),
        run("warn_only", Completed(repeats=(one,))),
    ]
    return case(name, runs, states)


def inventoried_case(name: str, alerts: Sequence[Alert] = (), outcome: Failed | None = None) -> CaseResult:
    """A case as an inventory leaves it: the warn_only run alone."""
    states: States = {}
    made = run("warn_only", outcome or Completed(repeats=(repeat(states),)), alerts=tuple(alerts))
    return CaseResult(
        case=Case(workload=name, device="cpu"),
        verdict=Verdict.ERROR if outcome else Verdict.SKIP,
        reason="the warn_only run did not complete" if outcome else "inventory only",
        declared_refusal=None,
        state_carried_over=False,
        runs=(made,),
        confirmations=(),
        comparisons=(),
        states={} if outcome else states,
        roles={} if outcome else ROLES,
    )


def canary(name: str, result: CaseResult, *, caught: bool = True) -> CanaryResult:
    return CanaryResult(
        name=name,
        caught=caught,
        expectation=f"{name} is caught",
        seen="as expected" if caught else "its verdict is PASS",
        result=result,
    )


def canaries(*, caught: bool = True) -> tuple[CanaryResult, ...]:
    return (
        canary("one_ulp", completed_case("one_ulp", (0, 0, 1))),
        canary("unseeded", completed_case("unseeded", (0, 1, 2)), caught=caught),
        canary("refused_op", refused_case("refused_op")),
    )


def every_case() -> tuple[CaseResult, ...]:
    """One case of each verdict, and of what a verdict can rest on."""
    return (
        completed_case("mlp"),
        completed_case("race", (0, 1, 2), distance=distance()),
        completed_case("hash_order", (0, 0, 1)),
        completed_case("cache", (0, 1, 0), carried_over=True),
        breached_case(),
        refused_case("put"),
        refused_case("put-documented", declared="https://docs.pytorch.org/docs/stable/"),
        failed_case(),
        non_finite_case(),
        skipped_case(),
    )


def report(
    cases: Sequence[CaseResult] | None = None,
    canary_results: Sequence[CanaryResult] | None = None,
    *,
    repeats: int = 1,
    complete: bool = True,
    cublas_workspace: CublasWorkspace | None = None,
) -> AuditReport:
    """A report of these cases; of one case of each kind where none are given."""
    cases = every_case() if cases is None else cases
    canary_results = canaries() if canary_results is None else canary_results
    return finish(
        AuditReport(
            schema_version=SCHEMA_VERSION,
            tool={"name": "repro-audit", "version": "0.1.0"},
            settings=Settings(
                modes=(Mode.STRICT, Mode.WARN_ONLY),
                selection=(),
                workload_paths=(),
                devices=(),
                required_devices=(),
                steps=2,
                repeats=repeats,
                seed=1234,
                timeout_ms=300_000,
                isolation=Isolation.FORK,
                cublas_workspace=cublas_workspace or CublasWorkspace(value=":4096:8", source="default"),
            ),
            environment=environment(),
            workloads=tuple(source(name) for name in dict.fromkeys(result.case.workload for result in cases)),
            cases=tuple(cases),
            canaries=tuple(canary_results),
            summary=summarize(cases, canary_results, complete=complete, canaries_expected=3),
            volatile=volatile(
                tuple(
                    RunTiming(
                        case=f"{result.case.workload}/{result.case.device}",
                        run=made.name,
                        pid=4242,
                        duration_ms=410,
                        stdout_bytes=0,
                        stderr_bytes=0,
                    )
                    for result in cases
                    for made in result.runs
                )
            ),
        )
    )


def volatile(runs: tuple[RunTiming, ...]) -> Volatile:
    return Volatile(
        audit="2026-01-02T030405Z-c0ffee",
        started="2026-01-02T03:04:05.678+00:00",
        finished="2026-01-02T03:04:09.012+00:00",
        duration_ms=3334,
        host="workstation",
        runs=runs,
    )


def inventory(cases: Sequence[CaseResult]) -> AuditReport:
    made = report(cases, ())
    return finish(
        msgspec.structs.replace(
            made,
            settings=msgspec.structs.replace(made.settings, modes=(Mode.WARN_ONLY,)),
            summary=summarize_inventory(cases, complete=True),
        )
    )


def source(name: str) -> WorkloadSource:
    return WorkloadSource(
        name=name,
        summary=f"What {name} is about.",
        path=f"/home/user/{name}.py",
        module=None,
        class_name="Workload",
        variant=None,
        sha256=digest(name),
        refused={},
        bundled=False,
    )


def environment() -> Environment:
    return Environment(
        python={"version": "3.11.7", "implementation": "CPython"},
        torch={"version": "2.13.0+cpu", "config": "PyTorch built with:\n  - GCC 13.3\n  - C++ Version: 202002\n"},
        packages={"torch": "2.13.0+cpu", "numpy": "2.4.6"},
        system={"kernel": "6.12", "cpu": "AMD EPYC", "logical_cores": "2"},
        devices=(Device(name="cpu", description="AMD EPYC", details={"capability": "AVX2"}),),
        absent_devices={"cuda": "built without CUDA"},
        flags={"deterministic_algorithms": "True", "cudnn.benchmark": "False"},
        variables={"OMP_NUM_THREADS": "2"},
        git={"/home/user/project": "0e1234567 (dirty)"},
    )
