"""The data of a script's audit: what one run of a script left, how two of them compare, and what that is judged to be.

A *recording* is one run of a script, as a folder: ``recording.json`` (a `Recording`) and ``streams/``, one file of
JSON lines for each process of the script and one for all threads beside its main thread. Lines are `Observation`,
the last one is a `StreamEnd`.
"""

from enum import StrEnum

import msgspec

from repro_audit.records import (
    Alert,
    Breach,
    Configuration,
    CublasWorkspace,
    Environment,
    Failed,
    Isolation,
    Location,
    Loss,
    Mode,
    Record,
    Refused,
    Role,
    Scope,
    SourceLine,
    Summary,
    Verdict,
    Volatile,
    Waiver,
)

RECORDING_SCHEMA_VERSION = 2
"""Raised with every change that a reader of the previous version would refuse or misread, of a recording or of a
script's evidence."""

MAIN_STREAM = "main"
"""The stream of the script's first process."""

THREADS_SUFFIX = "+threads"
"""Ends the name of the stream that all threads beside a process's main thread share, in whatever order they ran."""


class Point(StrEnum):
    """Where in a script something was observed."""

    BATCH = "batch"
    """A `DataLoader` handed over a batch."""
    INPUT = "input"
    """A module was called that is not called from another module's ``forward``."""
    OUTPUT = "output"
    """Such a call returned."""
    LOSS = "loss"
    """``backward()``, or `torch.autograd.grad`, began from here."""
    STEP = "step"
    """``Optimizer.step`` ended."""
    SCALER = "scaler"
    """``GradScaler.update`` ended."""
    SAVE = "save"
    """`torch.save` was called."""
    FINAL = "final"
    """The script is over, or let go of what it had trained."""
    SEED = "seed"
    """A generator was seeded, or made without a seed. For causes only, never compared."""
    LOADER = "loader"
    """A `DataLoader` was made. For causes only."""
    CHILD = "child"
    """A process was started. For causes only."""

    @property
    def is_compared(self) -> bool:
        """Whether two runs have to agree there."""
        return self not in (Point.SEED, Point.LOADER, Point.CHILD)

    @property
    def shows_results(self) -> bool:
        """Whether what is seen there has been computed by the script, and not only handed to it."""
        return self.is_compared and self not in (Point.BATCH, Point.INPUT)


OWN_GENERATOR = "own generator"
"""Name of a remark: a generator was made without a seed."""
ENTROPY = "os.urandom"
"""The operating system was asked for entropy."""
CLOCK = "clock"
"""A clock was read."""
PROCESS = "process"
"""The process id was asked for."""
DRAWN = {"python": "drawn from python", "numpy": "drawn from numpy"}
"""A global generator was drawn from."""


class Observation(Record, frozen=True, kw_only=True, omit_defaults=True, tag="observation", tag_field="kind"):
    """What was there at one point of a run."""

    point: Point
    name: str
    """Whose: ``SGD``, the variable or class of a module, the function that seeded."""
    line: str = ""
    """The user's own line as ``path:number``; empty where there is none."""
    loss: Loss | None = None
    leaves: dict[str, str] = {}
    """Leaf to ``sha256:<hex>`` or ``xxh3_128:<hex>``."""
    roles: dict[str, Role] = {}
    """Leaf to its role, where that is not `Role.VALUE`."""
    relaxed: bool = False
    """Whether strict mode was off, in a process that was not armed. Told, never compared."""
    complete: bool = True
    """Whether everything that may be observed here was: the whole state is not digested at every step."""
    rows: dict[str, str] = {}
    """Of an input or a batch: leaf to the sum of the digests of its rows, which no order of rows changes."""
    generators: dict[str, str] = {}
    """State of each of the generators that moved since the stream's previous observation, as a digest."""
    context: dict[str, str] = {}
    """For causes only, never compared: a seed's value, a loader's options, what could not be digested."""


class StreamEnd(Record, frozen=True, kw_only=True, omit_defaults=True, tag="end", tag_field="kind"):
    """A process of the script is over; without it a stream was cut off."""

    strict: bool
    """Whether PyTorch's deterministic algorithms were on."""
    armed: bool
    """Whether this process was armed by the audit; those that ``spawn`` started were not."""
    breaches: tuple[Breach, ...] = ()
    notes: tuple[str, ...] = ()


StreamItem = Observation | StreamEnd


# ------------------------------------------------------------------------------------------- tasks


class Script(Record, frozen=True, kw_only=True):
    """What is run: a file or a module, with arguments."""

    name: str
    """As it was given: a path, or the dotted name of a module."""
    path: str
    """The file; absolute."""
    is_module: bool
    """Whether it is run as ``python -m`` does."""
    arguments: tuple[str, ...]
    sha256: str
    """``sha256:<hex>`` of the file as it was when the audit began."""


class Trace(Record, frozen=True, kw_only=True):
    """Asks a run to record every op."""

    path: str
    """Where to."""
    first: int = 0
    """Position in the main stream, among what is compared, from which ops are recorded; 0: the script's first line."""
    last: int | None = None
    """Position after whose observation recording ends; None is the end."""
    steps: tuple[int, int] | None = None
    """In place of positions: the first and the last optimizer step, from 1, to record."""
    module: str | None = None
    """Glob on module paths: other ops are left out."""
    fetch: tuple[int, str] | None = None
    """Sequence number of an op, and where to store its outputs."""
    thorough: bool = False
    """Read all memory at every use: other threads may write to it unseen."""


class Remedy(StrEnum):
    """A condition that a run holds fixed, to test whether a divergence comes from it."""

    SEEDED = "seeded"
    """Global generators are seeded before the first line."""
    ENTROPY = "entropy"
    """Besides, generators made without a seed get a fixed one."""
    CLOCK = "clock"
    """The script's own lines read a clock that shows the same in every run."""
    PROCESS = "process"
    """They are told the same process id in every run."""
    HASH_SEED = "hash_seed"
    """`PYTHONHASHSEED` is fixed before the interpreter starts."""
    THREADS = "threads"
    """There is one CPU thread."""
    ADDRESSES = "addresses"
    """The address layout is the same in every run, and the hash seed."""


class ScriptTask(Record, frozen=True, kw_only=True, tag="script", tag_field="task"):
    """All a worker needs to know to run a script once."""

    run: str
    """``strict-a``, ``strict-b1``, ``warn_only``, ``record``."""
    script: Script
    executed_path: str
    """The file to execute: the script's own, or its counterpart in a copy of the working directory."""
    working_directory: str
    copied_from: str
    """The user's directory that `working_directory` is a copy of; the same where it is no copy."""
    mode: Mode | None
    """None: nothing is armed."""
    folder: str
    """The recording's folder; the worker writes ``streams/`` there."""
    record_path: str
    """Where the worker writes its `ScriptRecord`, as JSON, atomically."""
    schedule: dict[str, tuple[int, ...]] | None
    """Stream to the ordinals at which the whole state is digested; None lets this run choose, by what it costs."""
    remedies: tuple[Remedy, ...] = ()
    trace: Trace | None = None
    conditions: dict[str, str] | None = None
    """Name of a variation to the value that this process is to run under; None where nothing is varied."""


# ------------------------------------------------------------------------------------------- what was seen


class Finished(Record, frozen=True, kw_only=True, tag="finished", tag_field="outcome"):
    """The script came to its end."""

    exit_code: int


class Restart(Record, frozen=True, kw_only=True, tag="restart", tag_field="outcome"):
    """The script set variables that are read when PyTorch is loaded; it was stopped before that.

    A warm interpreter has loaded PyTorch already, so the run has to be made in one that was started with them.
    """

    variables: dict[str, str]
    line: str


ScriptOutcome = Finished | Refused | Failed | Restart


class FileUse(Record, frozen=True, kw_only=True):
    """A file outside the working directory that the script opened."""

    path: str
    line: str


class ScriptRecord(Record, frozen=True, kw_only=True):
    """What a worker writes about its run of a script."""

    outcome: ScriptOutcome
    alerts: tuple[Alert, ...]
    flags_start: dict[str, str]
    flags_end: dict[str, str]
    schedule: dict[str, tuple[int, ...]]
    """Stream to the ordinals at which the whole state was digested."""
    process: int
    started: str
    """Seconds since the epoch at the script's first line and at its end, as decimal text."""
    ended: str
    files_written: tuple[FileUse, ...] = ()
    files_read: tuple[FileUse, ...] = ()
    notes: tuple[str, ...] = ()
    conditions: dict[str, str] = {}
    """What the run was made under, as read back at its end; empty where nothing was to be varied."""


class Stream(Record, frozen=True, kw_only=True):
    """A stream of a recording."""

    name: str
    """``main``, ``main/1`` for the first process that it forked, ``main/s1`` for the first it spawned; for the
    threads of a process see `THREADS_SUFFIX`."""
    observations: int
    sha256: str
    """``sha256:<hex>`` of the file."""
    results_sha256: str = ""
    """``sha256:<hex>`` over the digests of all losses, of what was saved and of the final state; empty where a stream
    has no order of its own, and in recordings of schema 1."""


class Recording(Record, frozen=True, kw_only=True):
    """One run of a script, as the parent saw it."""

    schema_version: int
    tool: dict[str, str]
    name: str
    script: Script
    mode: Mode | None
    rank: int | None
    """Rank in a distributed job, from ``RANK``."""
    world_size: int | None
    outcome: Finished | Refused | Failed
    streams: tuple[Stream, ...]
    alerts: tuple[Alert, ...] = ()
    flags_start: dict[str, str] = {}
    flags_end: dict[str, str] = {}
    schedule: dict[str, tuple[int, ...]] = {}
    files_written: tuple[FileUse, ...] = ()
    files_read: tuple[FileUse, ...] = ()
    notes: tuple[str, ...] = ()
    process: int = 0
    started: str = ""
    ended: str = ""
    environment: Environment | None = None
    """Where the recording stands for itself; in an audit, the report has it."""


# ------------------------------------------------------------------------------------------- judgement


class ScriptDivergence(Record, frozen=True, kw_only=True):
    """The first place where two runs of a script differ: where seen, which is no proof of the cause."""

    stream: str
    position: int
    """Position in the stream, among what is compared, from 0."""
    step: int
    """Optimizer steps that had ended in that stream before."""
    point: Point
    name: str
    line: SourceLine | None
    leaf: str
    """``point`` itself where the runs do not do the same there."""
    role: Role | None
    """None where the runs do not do the same there."""
    first: str | None
    second: str | None
    """Digests, or what each run did."""
    first_loss: Loss | None = None
    second_loss: Loss | None = None
    differing_leaves: int
    total_leaves: int
    last_equal: int
    """Position of the last observation of everything before it at which both runs agreed; -1 where there is none."""


class ScriptComparison(Record, frozen=True, kw_only=True):
    """Two recordings compared."""

    first: str
    second: str
    """Names of the recordings."""
    observations: int
    """How many were compared, in all streams."""
    results: int
    """How many of them show what the script computed."""
    losses: int
    losses_equal: int
    divergence: ScriptDivergence | None
    later: tuple[ScriptDivergence, ...] = ()
    """First divergences of the other streams."""
    notes: tuple[str, ...] = ()


class CauseKind(StrEnum):
    """What a divergence comes from, as far as it was tested or is proved by the records."""

    UNSEEDED = "unseeded"
    SEEDED_LATE = "seeded late"
    SEED_DIFFERS = "seed differs"
    OWN_GENERATOR = "generator of its own, unseeded"
    EXTRA_DRAW = "extra random draw"
    LOADER_ORDER = "batches in the order in which workers are ready"
    DATA_ORDER = "same data in another order"
    DATA = "other data"
    KERNEL = "kernel with equal inputs"
    OVERLAP = "write to a view whose elements share memory"
    UNINITIALISED = "uninitialised memory"
    HASH_ORDER = "string hash order"
    VALUE = "value from Python"
    FILE = "file carried over"
    CONTROL_FLOW = "control flow"
    ENTROPY_CALL = "value from the operating system's entropy"
    CLOCK = "value from the clock"
    PROCESS = "value from the process id"
    THREADS = "CPU threads working in parallel"
    ADDRESSES = "addresses of memory"


CAUSE_ORDER = (
    CauseKind.SEED_DIFFERS,
    CauseKind.FILE,
    CauseKind.UNSEEDED,
    CauseKind.SEEDED_LATE,
    CauseKind.OWN_GENERATOR,
    CauseKind.ENTROPY_CALL,
    CauseKind.HASH_ORDER,
    CauseKind.CLOCK,
    CauseKind.PROCESS,
    CauseKind.ADDRESSES,
    CauseKind.THREADS,
    CauseKind.OVERLAP,
    CauseKind.UNINITIALISED,
    CauseKind.KERNEL,
    CauseKind.LOADER_ORDER,
    CauseKind.DATA_ORDER,
    CauseKind.EXTRA_DRAW,
    CauseKind.CONTROL_FLOW,
    CauseKind.VALUE,
    CauseKind.DATA,
)
"""From what a user has to change to what follows from it."""


class Cause(Record, frozen=True, kw_only=True):
    """A cause that the evidence supports."""

    kind: CauseKind
    statement: str
    """One sentence."""
    proof: str
    """How it was tested, or which records prove it."""
    line: SourceLine | None


class ScriptSettings(Record, frozen=True, kw_only=True):
    """What was asked for, after defaults."""

    script: Script
    working_directory: str
    copied: bool
    """Whether each run had its own copy of the working directory."""
    linked: dict[str, str]
    """What the copies share with the original, and why."""
    repeats: int
    timeout_ms: int
    isolation: Isolation
    cublas_workspace: CublasWorkspace
    variables: dict[str, str]
    """What the script sets before it imports PyTorch, and the interpreters were started with."""


class ScriptReport(Record, frozen=True, kw_only=True):
    """Everything the audit of a script found; the evidence file is this record."""

    script_schema_version: int
    tool: dict[str, str]
    settings: ScriptSettings
    environment: Environment
    recordings: tuple[Recording, ...]
    comparisons: tuple[ScriptComparison, ...]
    verdict: Verdict
    reason: str
    location: Location | None
    causes: tuple[Cause, ...]
    tests: tuple[str, ...]
    """Conditions that were held fixed to test for a cause, and what came of it, in words."""
    notes: tuple[str, ...]
    breaches: tuple[Breach, ...]
    summary: Summary
    volatile: Volatile
    waived: tuple[Waiver, ...] = ()
    """Those that accept everything that the verdict, FAIL or REFUSED, rests on; none where something is left."""
    configuration: Configuration | None = None
    waivers: tuple[Waiver, ...] = ()
    """All that were configured, also those that accept nothing here or have expired."""
    scope: Scope | None = None
    """None in evidence of schema 1."""
    result_digest: str = ""
    """``sha256:<hex>`` of what was found, see `result_digest.result_of`; empty in evidence of schema 1."""


def stream_decoder() -> msgspec.json.Decoder[StreamItem]:
    """Reads one line of a stream."""
    return msgspec.json.Decoder(StreamItem)
