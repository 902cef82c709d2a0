"""The data of an audit: frozen records; everything else in the package is functions between them.

Evidence is these records written as YAML, and reading it back gives equal records. Therefore they hold only
strings, booleans, integers below 2**53 and nests of those: a float is kept as text and as hex bits, a digest
carries its algorithm, and what changes from audit to audit without meaning stands in `Volatile`.
"""

from enum import StrEnum

import msgspec

SCHEMA_VERSION = 2
"""Raised with every change that a reader of the previous version would refuse or misread."""


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Root of all records: immutable, named fields only, unknown fields refused on reading."""


# ------------------------------------------------------------------------------------------- choices


class Mode(StrEnum):
    """How the interpreter is armed for a run."""

    STRICT = "strict"
    """`torch.use_deterministic_algorithms(True)` and its companions: what a claim rests on."""
    WARN_ONLY = "warn_only"
    """The same with ``warn_only=True``: for the inventory of a dry run, never evidence for the claim."""
    DEFAULT = "default"
    """As PyTorch starts: shows what strict mode repairs, never evidence for the claim."""
    NO_FILL = "no_fill"
    """Strict, but memory stays uninitialised: shows what strict mode's fill hides, never evidence for the claim."""


class Verdict(StrEnum):
    """Judgement on a case."""

    PASS = "PASS"
    FAIL = "FAIL"
    REFUSED = "REFUSED"
    ERROR = "ERROR"
    SKIP = "SKIP"


class Phase(StrEnum):
    """Where in a step an alert was raised."""

    FORWARD = "forward"
    BACKWARD = "backward"


class Role(StrEnum):
    """What a leaf of the state is to the training."""

    LOSS = "loss"
    GRADIENT = "gradient"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    OPTIMIZER = "optimizer"
    RNG = "rng"
    VALUE = "value"
    """Any other leaf that the workload's ``state()`` returned."""


class DivergenceKind(StrEnum):
    """What differed first: a leaf of the role of that name, or the set of leaves itself."""

    LOSS = "loss"
    GRADIENT = "gradient"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    OPTIMIZER = "optimizer"
    RNG = "rng"
    VALUE = "value"
    STRUCTURE = "structure"
    """A leaf, a step or a loss is there in one repeat and absent in the other."""


class FailureKind(StrEnum):
    """Why a run could not be judged."""

    EXCEPTION = "exception"
    IMPORT = "import"
    TIMEOUT = "timeout"
    SIGNAL = "signal"
    OUT_OF_MEMORY = "out_of_memory"
    EXIT = "exit"
    """The workload ended the process itself: ``sys.exit``, ``os._exit``."""
    RECORD = "record"
    """The process ended well, but its record is unreadable or contradicts what was asked of it."""
    EMPTY = "empty"
    """No step was made, or ``state()`` held no leaf after the last one."""
    LEAF = "leaf"
    """``state()`` held a leaf that has no digest."""
    LOSS = "loss"
    """``step()`` returned something that is no loss."""
    LAUNCH = "launch"
    """The interpreter that should have made the run died."""


class Pairing(StrEnum):
    """Which claim a comparison speaks for."""

    SAME_PROCESS = "same_process"
    """Two repeats inside one process: state that leaks from one into the next shows here."""
    FRESH_PROCESS = "fresh_process"
    """First repeats of two processes forked from two independent interpreters."""


class Factor(StrEnum):
    """What may decide whether two repeats agree, and can be fixed to see."""

    CLOCK = "clock"
    """What the workload's own lines read of the time."""
    PROCESS = "process id"
    ENTROPY = "entropy"
    """The operating system's, and generators made without a seed."""
    THREADS = "threads"
    """More than one CPU thread."""
    HASH_SEED = "hash seed"
    """`PYTHONHASHSEED`."""
    ADDRESSES = "address layout"


class Isolation(StrEnum):
    """How a run gets its process."""

    FORK = "fork"
    """Forked from one of two warm interpreters."""
    EXEC = "exec"
    """A whole new interpreter for each run."""


# ------------------------------------------------------------------------------------------- subjects


class WorkloadSource(Record, frozen=True, kw_only=True, omit_defaults=True):
    """Where a workload is found and what it declares, read without importing it."""

    name: str
    """Unique in an audit: file stem, with ``-variant`` where it has variants."""
    summary: str
    path: str
    """The file that defines it; absolute."""
    module: str | None
    """Dotted name to import it by, or None to load the file by its path."""
    class_name: str
    variant: str | None
    sha256: str
    """``sha256:<hex>`` of the file as it was when the audit began."""
    refused: dict[str, str]
    """Device type to the source that documents strict mode's refusal there."""
    bundled: bool
    dataloader_workers: int | None = None
    """How many workers its DataLoader has, where it lets that be changed."""


class Case(Record, frozen=True, kw_only=True):
    """A workload on a device: the unit that gets a verdict."""

    workload: str
    device: str
    """``cpu`` or ``cuda:N``."""

    @property
    def name(self) -> str:
        """``workload/device``."""
        return f"{self.workload}/{self.device}"


class Fetch(Record, frozen=True, kw_only=True):
    """A leaf whose value a run is to store, for measuring how far two runs are apart."""

    repeat: int
    step: int
    leaf: str
    path: str
    """Where to: a file written with `torch.save`."""


class RunTask(Record, frozen=True, kw_only=True, tag="run", tag_field="task"):
    """All a worker needs to know to make a run."""

    run: str
    """Name of the run, unique in its case: ``strict-a``, ``strict-b1``, ``warn_only``, ``default``, ``no_fill``."""
    source: WorkloadSource
    device: str
    mode: Mode
    repeats: int
    steps: int
    seed: int
    record_path: str
    """Where the worker writes its `WorkerRecord`, as JSON, atomically."""
    fetches: tuple[Fetch, ...] = ()
    trace_path: str | None = None
    """Where to write a trace of every op; of repeat N it is that path with ``.N`` appended."""
    fills_memory: bool = False
    """New memory holds something else in the first repeat than in the others, where the C library can do that."""
    conditions: dict[str, str] | None = None
    """Name of a variation to the value that this process is to run under; None where nothing is varied."""
    measures_cost: bool = False
    """Has what strict mode costs measured, once the repeats are over."""


class EnvironmentTask(Record, frozen=True, kw_only=True, tag="environment", tag_field="task"):
    """Asks a worker what it runs on."""

    record_path: str
    """Where the worker writes its `WorkerEnvironment`."""


class MeasureTask(Record, frozen=True, kw_only=True, tag="measure", tag_field="task"):
    """Asks a worker how far two fetched values are apart."""

    first_path: str
    second_path: str
    record_path: str
    """Where the worker writes its `Measurement`."""


# ------------------------------------------------------------------------------------------- what was seen


class SourceLine(Record, frozen=True, kw_only=True):
    """A line of Python source."""

    path: str
    line: int
    text: str
    """The line itself, stripped; empty where the source cannot be read."""


class Alert(Record, frozen=True, kw_only=True):
    """PyTorch's report that an op has no deterministic implementation; equal ones are counted together."""

    op: str
    """As PyTorch names it; may hold spaces (``median CUDA with indices output``)."""
    message: str
    phase: Phase
    step: int
    """The first step it was seen in; 0 is ``setup``."""
    count: int
    location: SourceLine | None
    """The user's own line that was running: of the op, or for a backward alert of the ``backward()`` call."""
    forward_location: SourceLine | None
    """For a backward alert, the user's forward line that made the op; None where PyTorch cannot tell."""


class Loss(Record, frozen=True, kw_only=True):
    """A loss as it was returned."""

    text: str
    """Shortest decimal that reads back as the same number of its dtype, or ``nan``, ``inf``, ``-inf``."""
    dtype: str
    bits: str
    """The value's bits as ``0x`` and hex digits, most significant first."""
    finite: bool


class State(Record, frozen=True, kw_only=True):
    """What was there after ``setup``, or after a step."""

    loss: Loss | None
    """The loss that the step returned; None after ``setup``."""
    leaves: dict[str, str]
    """Leaf to ``sha256:<hex>``, the loss and the states of all generators included."""


States = dict[str, State]
"""`digests.state_digest` of a state's leaves to that state. Each state that was seen stands there once."""


class Repeat(Record, frozen=True, kw_only=True):
    """One execution of a workload from seed to last step."""

    states: tuple[str, ...]
    """Digest of the state after ``setup``, then after each step: keys of a `States` table."""


class Breach(Record, frozen=True, kw_only=True):
    """A determinism setting that was not as the mode demands while the workload ran."""

    setting: str
    expected: str
    found: str
    repeat: int
    step: int
    location: SourceLine | None
    """The line that changed it, where that was seen."""


class Completed(Record, frozen=True, kw_only=True, tag="completed", tag_field="outcome"):
    """Every repeat made every step."""

    repeats: tuple[Repeat, ...]


class Refused(Record, frozen=True, kw_only=True, tag="refused", tag_field="outcome"):
    """Strict mode refused an op."""

    alert: Alert
    repeat: int
    detail: str
    """End of the traceback."""


class Failed(Record, frozen=True, kw_only=True, tag="failed", tag_field="outcome"):
    """The run cannot be judged."""

    kind: FailureKind
    detail: str
    """What is known, in words, with the end of the traceback or of stderr."""
    exit_code: int | None = None
    signal: str | None = None
    """As in ``SIGSEGV``."""


Outcome = Completed | Refused | Failed


class Cost(Record, frozen=True, kw_only=True):
    """What strict mode costs a workload in time, measured side by side in one process."""

    pairs: int
    """How many steps were timed in each mode, in turns."""
    time_ratio: str
    """Median of strict time over default time, as decimal text."""
    time_low: str
    time_high: str
    """The quartiles of that ratio."""


class WorkerRecord(Record, frozen=True, kw_only=True):
    """What a worker writes about its run."""

    outcome: Outcome
    states: States
    roles: dict[str, Role]
    """Leaf to its role, for every leaf of every state."""
    alerts: tuple[Alert, ...]
    """Inventory of a warn_only run; in a strict run, alerts that were raised and swallowed by the workload."""
    breaches: tuple[Breach, ...]
    flags_start: dict[str, str]
    """Every determinism or precision setting as read back before the workload's first op."""
    flags_end: dict[str, str]
    """The same after the last."""
    seeded: tuple[str, ...]
    """The generators that were seeded before every repeat: ``python``, ``numpy``, ``torch``, ``torch.cuda``."""
    notes: tuple[str, ...] = ()
    """What a reader of the evidence should know of this run, in words."""
    conditions: dict[str, str] = {}
    """What the run was made under, as read back at its end; empty where nothing was to be varied."""
    cost: Cost | None = None
    """None where it was not to be measured, or could not be."""
    peak_bytes: int = 0
    """Most memory that the first two repeats needed at once, see `CaseCost`."""


class Run(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One execution in one process, as the parent saw it; of the later fields, what is empty is left out in writing."""

    name: str
    """``strict-a``, ``strict-b1``, ``warn_only``, ``default``, ``no_fill``."""
    mode: Mode
    repeats: int
    """How many were asked for."""
    outcome: Outcome
    alerts: tuple[Alert, ...] = ()
    breaches: tuple[Breach, ...] = ()
    flags_start: dict[str, str] = {}
    """The settings that were not as `Environment.flags` when they were read back before the first op."""
    flags_end: dict[str, str] = {}
    """The same after the last op."""
    seeded: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class RunRecord(Record, frozen=True, kw_only=True):
    """A run as a file of its own, kept as soon as it ended: ``runs/<case>/<run>.json`` of an archive."""

    case: Case
    canary: bool
    run: Run
    states: States
    """Those that the run's own repeats name."""
    roles: dict[str, Role]


# ------------------------------------------------------------------------------------------- judgement


class Distance(Record, frozen=True, kw_only=True):
    """How far two values of a diverged leaf are apart."""

    dtype: str
    shape: tuple[int, ...]
    elements: int
    differing: int
    """Elements whose bits differ."""
    max_absolute: str | None
    """Largest absolute difference over the finite pairs, as decimal text; None where there is no such pair."""
    max_ulp: str | None
    """Largest distance in units in the last place over the finite pairs, as decimal text; None for a dtype that
    has none."""
    first_index: tuple[int, ...]
    """Index of the first differing element, in C order."""
    first_value: str
    second_value: str
    """The two values there."""


class Divergence(Record, frozen=True, kw_only=True):
    """The first place where two repeats differ: where seen, which is no proof of the cause."""

    kind: DivergenceKind
    step: int
    leaf: str
    first: str | None
    """Digest of the reference repeat; None where the leaf is absent."""
    second: str | None
    differing_leaves: int
    """How many leaves of that step differ."""
    total_leaves: int
    distance: Distance | None = None
    distance_note: str = ""
    """Why there is no distance, or in which runs it was measured."""


class TracedOp(Record, frozen=True, kw_only=True):
    """An op of a trace, as a report shows it."""

    sequence: int
    op: str
    module: str
    line: str
    inputs: str
    """Dtypes and shapes."""
    outputs: str
    differs: str
    """Which inputs or outputs differ; empty where none does."""


class Location(Record, frozen=True, kw_only=True):
    """The op where two traced runs part."""

    agreed: bool
    """The traced pair agreed: tracing hid the divergence."""
    kind: str
    """``kernel``, ``external_input``, ``other_tensor``, ``generator``, ``uninitialised``, ``arguments``,
    ``control_flow``; empty where the pair agreed."""
    statement: str
    first: TracedOp | None = None
    second: TracedOp | None = None
    line: SourceLine | None = None
    context: tuple[TracedOp, ...] = ()
    """A few ops of the first run before and after."""
    overlap: bool = False
    distance: Distance | None = None
    distance_note: str = ""
    later: tuple[TracedOp, ...] = ()
    """Later ops that part independently, the first few."""
    later_count: int = 0
    ops: int = 0
    """How many ops were compared."""
    window: str = ""
    """Which part of the run was traced."""


class RepeatName(Record, frozen=True, kw_only=True):
    """Names a repeat: the run it belongs to and its index there, from 0."""

    run: str
    repeat: int


class Comparison(Record, frozen=True, kw_only=True):
    """Two repeats compared bit by bit."""

    pairing: Pairing
    first: RepeatName
    second: RepeatName
    loss_equal: bool
    state_equal: bool
    """All leaves but the loss."""
    divergence: Divergence | None


class Arm(Record, frozen=True, kw_only=True):
    """The workload repeated in another mode, to see what a strict pair hides; no verdict rests on it."""

    run: Run
    comparisons: tuple[Comparison, ...]
    """The first repeat with each of the others, which are made in the same process; none where the run failed."""


class FactorTest(Record, frozen=True, kw_only=True):
    """What came of fixing one factor of a divergence."""

    factor: Factor
    pairing: Pairing
    """Which repeats were compared."""
    fixed_pairs: int = 0
    """How many pairs were made with it fixed, up to the first that differed; 0 where there was no time for it."""
    fixed_agreeing: int = 0
    free_pairs: int = 0
    """How many were made afterwards with nothing fixed, up to the first that differed."""
    free_differing: int = 0

    @property
    def decides(self) -> bool:
        """Whether fixing it made the divergence go away, and letting it go brought it back."""
        return 0 < self.fixed_pairs == self.fixed_agreeing and self.free_differing > 0


class Waiver(Record, frozen=True, kw_only=True):
    """A finding that somebody has accepted, until a day."""

    workload: str
    """Glob on the names of workloads, or on the name of a script."""
    device: str
    """Glob on devices."""
    op: str
    """Glob on what was found: ops that strict mode refuses, the op where runs part, or the setting that was undone."""
    reason: str
    who: str
    until: str
    """The last day on which it holds, UTC, as ``YYYY-MM-DD``."""


class CaseResult(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A case with all that its verdict rests on."""

    case: Case
    verdict: Verdict
    reason: str
    """One sentence: why this verdict."""
    declared_refusal: str | None
    """The source that documents strict mode's refusal of this workload on this device."""
    state_carried_over: bool
    """The first repeats of fresh processes agree and the second ones agree, but first and second differ."""
    runs: tuple[Run, ...]
    confirmations: tuple[Run, ...]
    """Runs made after a divergence, to tell its kind and to measure it; the verdict does not rest on them."""
    comparisons: tuple[Comparison, ...]
    states: States
    """The states of all runs of the case."""
    roles: dict[str, Role]
    location: Location | None = None
    """The op where two traced runs part, after a divergence."""
    arms: tuple[Arm, ...] = ()
    """Made where the strict reference run completed, unless the audit was to be quick."""
    factors: tuple[FactorTest, ...] = ()
    """Made after a divergence, within the budget; ends with the one that decides, where one does."""
    waivers: tuple[Waiver, ...] = ()
    """Those that accept everything that the verdict, FAIL or REFUSED, rests on; none where something is left."""


class CanaryResult(Record, frozen=True, kw_only=True):
    """A case that must be caught, and whether it was."""

    name: str
    caught: bool
    expectation: str
    seen: str
    result: CaseResult


# ------------------------------------------------------------------------------------------- the audit


class CublasWorkspace(Record, frozen=True, kw_only=True):
    """`CUBLAS_WORKSPACE_CONFIG` as the runs saw it, and whose value that was."""

    value: str | None
    source: str
    """``default``, ``option`` and ``archive`` (that of an audit that is made again) were set by the tool;
    ``environment`` and ``inherit`` are the user's own."""


class Settings(Record, frozen=True, kw_only=True):
    """What was asked for, after defaults."""

    modes: tuple[Mode, ...]
    """With ``warn_only`` alone this is an inventory: no comparison, no canary, no verdict but SKIP."""
    selection: tuple[str, ...]
    workload_paths: tuple[str, ...]
    devices: tuple[str, ...]
    """Empty: ``cpu``, and ``cuda:0`` where there is one."""
    required_devices: tuple[str, ...]
    steps: int
    repeats: int
    """Fresh processes that are compared with the reference run."""
    seed: int
    timeout_ms: int
    isolation: Isolation
    cublas_workspace: CublasWorkspace
    budget_ms: int = 0
    """What may be spent on each diverged case, on finding what decides it."""


class Device(Record, frozen=True, kw_only=True):
    """A device that was there."""

    name: str
    description: str
    details: dict[str, str] = {}


class WorkerEnvironment(Record, frozen=True, kw_only=True):
    """The share of `Environment` that only a worker can see."""

    torch: dict[str, str]
    devices: tuple[Device, ...]
    absent_devices: dict[str, str]
    flags: dict[str, str]


class Measurement(Record, frozen=True, kw_only=True):
    """What a `MeasureTask` found."""

    distance: Distance | None
    """None where the two values have no distance: other dtypes or shapes, or no numbers."""


class Environment(Record, frozen=True, kw_only=True):
    """What the runs ran on. Only allow-listed environment variables are recorded."""

    python: dict[str, str]
    torch: dict[str, str]
    packages: dict[str, str]
    system: dict[str, str]
    devices: tuple[Device, ...]
    absent_devices: dict[str, str]
    """Device type to the reason why there is none."""
    flags: dict[str, str]
    """Determinism and precision settings as read back in an armed worker."""
    variables: dict[str, str]
    git: dict[str, str]


class Summary(Record, frozen=True, kw_only=True):
    """The audit in figures."""

    counts: dict[Verdict, int]
    exit_code: int
    complete: bool
    """False where the audit was interrupted."""
    canaries_caught: bool
    statement: str
    """The result in one sentence."""


class RunTiming(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The volatile part of a run."""

    case: str
    """``workload/device``."""
    run: str
    pid: int | None
    duration_ms: int
    stdout_bytes: int = 0
    """All that was written, also what the archive's bounded log leaves out."""
    stderr_bytes: int = 0


class CaseCost(Record, frozen=True, kw_only=True):
    """The cost of strict mode in a case."""

    case: str
    """``workload/device``."""
    time: Cost | None
    """None where it could not be measured; a note of the run in default mode says why."""
    strict_bytes: int
    default_bytes: int
    """Most memory that two repeats needed at once in one process, beyond what was there before: of the device, or on a
    CPU of the process. 0 where the system does not tell."""


class Volatile(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What differs between two audits that found the same thing."""

    audit: str
    """Name of the archive folder."""
    started: str
    """UTC, ISO 8601."""
    finished: str
    duration_ms: int
    host: str
    runs: tuple[RunTiming, ...]
    costs: tuple[CaseCost, ...] = ()
    """Of the cases that completed under strict mode, unless the audit was to be quick."""


class Configuration(Record, frozen=True, kw_only=True):
    """The effective configuration: each value, and where it came from."""

    file: str | None
    """The file that was read, absolute; None where there was none."""
    sha256: str | None
    """``sha256:<hex>`` of that file."""
    values: dict[str, str]
    """Key of the configuration to its value in the spelling of JSON."""
    origins: dict[str, str]
    """Key to ``command line``, ``environment``, ``file`` or ``default``."""


class Scope(Record, frozen=True, kw_only=True):
    """How far the evidence reaches, in words."""

    claims: tuple[str, ...]
    does_not_claim: tuple[str, ...]


class AuditReport(Record, frozen=True, kw_only=True):
    """Everything an audit found; the evidence file is this record."""

    schema_version: int
    tool: dict[str, str]
    settings: Settings
    environment: Environment
    workloads: tuple[WorkloadSource, ...]
    cases: tuple[CaseResult, ...]
    canaries: tuple[CanaryResult, ...]
    summary: Summary
    volatile: Volatile
    configuration: Configuration | None = None
    waivers: tuple[Waiver, ...] = ()
    """All that were configured, also those that accept nothing here or have expired."""
    scope: Scope | None = None
    """None in evidence of schema 1."""
    result_digest: str = ""
    """``sha256:<hex>`` of what was found, see `result_digest.result_of`; empty in evidence of schema 1."""
