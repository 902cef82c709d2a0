"""The table of variations: what can be changed on purpose, how, and what that may do to the bits.

A condition that is read when the interpreter starts is changed in the environment of an interpreter of its own;
what is not, in the forked process, by `repro_audit.worker.conditions`.
"""

import locale
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from repro_audit.cores import usable_cores
from repro_audit.records import Environment, Mode, WorkloadSource
from repro_audit.settings import CUBLAS_VARIABLE
from repro_audit.variation_records import Expectation

CLOCK_HELD = "2023-11-14T22:13:20+00:00"


@dataclass(frozen=True, kw_only=True)
class Start:
    """How an interpreter is started."""

    variables: Mapping[str, str]
    """Besides those of the audit's own environment."""
    fixed_addresses: bool
    """Whether the address layout is the same at each start."""
    cold: bool = False
    """Whether each run has a whole new interpreter: after a fork, memory lies where earlier tasks have left room."""

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for starts that are alike."""
        return tuple(sorted(self.variables.items())), self.fixed_addresses, self.cold


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """All that a run is made under."""

    start: Start
    in_process: Mapping[str, str] = field(default_factory=dict)
    """Name of a variation to its value, for `repro_audit.worker.conditions`."""
    mode: Mode = Mode.STRICT
    device: str = ""
    """In the place of the case's own; empty keeps that."""


HELD = Conditions(
    start=Start(variables={"PYTHONHASHSEED": "0"}, fixed_addresses=True), in_process={"clock": CLOCK_HELD}
)
"""What runs have in common that would otherwise differ from process to process."""

HELD_ON_PURPOSE = {"hashseed": "0", "aslr": "fixed", "clock": CLOCK_HELD}
"""The same as it is read back: a claim has these as conditions unless they were varied."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What decides whether a variation can be made."""

    environment: Environment
    held: Mapping[str, str]
    """Conditions as read back from an unvaried run."""
    device: str
    source: WorkloadSource | None
    """None for a script."""
    cpu_flags: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Variation:
    """A condition of the process under test that can be changed on purpose."""

    name: str
    words: str
    """What a sentence calls the condition."""
    values: tuple[str, ...]
    """Those that it is given unless others are asked for."""
    expectation: Expectation
    source: str
    """Why that may be expected."""
    change: Callable[[Conditions, str], Conditions]
    valid: Callable[[str], bool]
    """Whether a value can be asked for."""
    absent: Callable[[Facts, str], str] = lambda facts, value: ""
    """Why a value cannot be had here; empty where it can."""
    devices: tuple[str, ...] = ("cpu", "cuda")
    by_default: bool = True
    """False for what takes long, or disturbs whoever else uses the machine."""
    for_scripts: bool = True


def _variables(*names: str, **values: Mapping[str, str]) -> Callable[[Conditions, str], Conditions]:
    """Sets variables before the interpreter starts: all to the value, or as a named value says."""

    def change(conditions: Conditions, value: str) -> Conditions:
        given = values[value] if value in values else dict.fromkeys(names, value)
        variables = {**conditions.start.variables, **given}
        return replace(conditions, start=replace(conditions.start, variables=variables))

    return change


def _in_process(name: str) -> Callable[[Conditions, str], Conditions]:
    return lambda conditions, value: replace(conditions, in_process={**conditions.in_process, name: value})


def _random_addresses(conditions: Conditions, _: str) -> Conditions:
    return replace(conditions, start=replace(conditions.start, fixed_addresses=False))


def _no_fill(conditions: Conditions, _: str) -> Conditions:
    return replace(conditions, mode=Mode.NO_FILL)


def _other_device(conditions: Conditions, value: str) -> Conditions:
    return replace(conditions, device=value)


# ------------------------------------------------------------------------------------------- what cannot be had


def _aslr_absent(facts: Facts, _: str) -> str:
    if facts.held.get("aslr") != "fixed":
        return "this system does not let the address layout be held, so that unvaried runs have it at random as well"
    return "the kernel randomises no addresses" if _randomize_va_space() == "0" else ""


def _randomize_va_space() -> str:
    try:
        return Path("/proc/sys/kernel/randomize_va_space").read_text().strip()
    except OSError:
        return "unknown"


_CPU_FLAGS = {
    "avx2": "avx2",
    "avx512": "avx512f",
    "AVX": "avx",
    "AVX2": "avx2",
    "AVX512": "avx512f",
    "AVX512_CORE": "avx512f",
    "SSE41": "sse4_1",
    "SSE4_2": "sse4_2",
}


def _cpu_absent(facts: Facts, value: str) -> str:
    flag = _CPU_FLAGS.get(value)
    return f"this CPU has no {value}" if flag is not None and flag not in facts.cpu_flags else ""


def _mkl_absent(facts: Facts, value: str) -> str:
    if "MKL" not in facts.environment.torch.get("config", ""):
        return "this PyTorch was built without MKL"
    return _cpu_absent(facts, value)


def _onednn_absent(facts: Facts, value: str) -> str:
    if not facts.cpu_flags & {"sse4_1"}:
        return "oneDNN chooses among instruction sets of x86 alone"
    return _cpu_absent(facts, value)


def _glibc_absent(facts: Facts, _: str) -> str:
    return "" if facts.environment.system.get("libc", "").startswith("glibc") else "the C library is not glibc"


def _numpy_absent(facts: Facts, _: str) -> str:
    return "" if "numpy" in facts.environment.packages else "NumPy is not installed"


def _locale_absent(_: Facts, value: str) -> str:
    before = locale.setlocale(locale.LC_ALL)
    try:
        locale.setlocale(locale.LC_ALL, value)
    except locale.Error:
        return f"locale {value} is not installed"
    finally:
        locale.setlocale(locale.LC_ALL, before)
    return ""


def _knob_absent(facts: Facts, _: str) -> str:
    return "" if facts.source is not None and facts.source.dataloader_workers is not None else "no such knob"


def _uncompiled(facts: Facts, _: str) -> str:
    return "nothing was compiled" if facts.held.get("autotune") == "nothing compiled" else ""


def _device_absent(facts: Facts, value: str) -> str:
    there = {device.name: device.description for device in facts.environment.devices}
    if value not in there:
        return f"there is no {value}"
    if there[value] != there.get(facts.device):
        return f"{value} is another model than {facts.device}: {there[value]}"
    return ""


def _time(value: str) -> bool:
    """Whether it is a time with its zone; others would mean another time on each machine."""
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return False
    return moment.tzinfo is not None and moment.timestamp() > 0


def _word(value: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_.@+/,<>-]{1,64}", value) is not None and ".." not in value


def _whole_number(value: str) -> bool:
    return value.isascii() and value.isdecimal() and len(value) < 6


def _threads(value: str) -> bool:
    return value == "all" or (_whole_number(value) and int(value) > 0)


_REPRODUCIBLE_BUILDS = "https://reproducible-builds.org/docs/"
_ONEMKL = "https://www.intel.com/content/www/us/en/docs/onemkl/developer-guide-linux/2025-0/"

VARIATIONS = (
    Variation(
        name="hashseed",
        words="hash seed",
        values=("1", "2"),
        valid=_whole_number,
        expectation=Expectation.MUST_NOT_MATTER,
        source="https://docs.python.org/3/using/cmdline.html#envvar-PYTHONHASHSEED",
        change=_variables("PYTHONHASHSEED"),
    ),
    Variation(
        name="threads",
        words="thread count",
        values=("1", "2", "all"),
        valid=_threads,
        expectation=Expectation.PART_OF_CLAIM,
        source="https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html",
        change=_variables("OMP_NUM_THREADS", "MKL_NUM_THREADS"),
    ),
    Variation(
        name="cpu-capability",
        words="CPU capability",
        values=("default", "avx2"),
        valid=lambda value: value in ("default", "avx2", "avx512"),
        expectation=Expectation.PART_OF_CLAIM,
        source="https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/DispatchStub.cpp",
        change=_in_process("cpu-capability"),
        absent=_cpu_absent,
    ),
    Variation(
        name="mkl-cbwr",
        words="code path of MKL",
        values=("COMPATIBLE", "AVX2"),
        valid=lambda value: value in ("COMPATIBLE", "SSE4_2", "AVX", "AVX2", "AVX512", "AUTO"),
        expectation=Expectation.PART_OF_CLAIM,
        source=f"{_ONEMKL}specifying-code-branches.html",
        change=_in_process("mkl-cbwr"),
        absent=_mkl_absent,
    ),
    Variation(
        name="onednn-isa",
        words="instruction set of oneDNN",
        values=("SSE41", "AVX2"),
        valid=lambda value: value in ("SSE41", "AVX", "AVX2", "AVX512_CORE"),
        expectation=Expectation.PART_OF_CLAIM,
        source="https://uxlfoundation.github.io/oneDNN/dev_guide_cpu_dispatcher_control.html",
        change=_in_process("onednn-isa"),
        absent=_onednn_absent,
    ),
    Variation(
        name="malloc",
        words="contents of new and freed memory",
        values=("filled",),
        valid=lambda value: value == "filled",
        expectation=Expectation.MUST_NOT_MATTER,
        source="https://man7.org/linux/man-pages/man3/mallopt.3.html",
        change=_in_process("malloc"),
        absent=_glibc_absent,
    ),
    Variation(
        name="alignment",
        words="alignment of host arrays",
        values=("16", "8"),
        valid=lambda value: value in ("0", "4", "8", "12", "16", "24", "32", "40", "48", "56"),
        expectation=Expectation.PART_OF_CLAIM,
        source=f"{_ONEMKL}obtaining-numerically-reproducible-results.html",
        change=_in_process("alignment"),
        absent=_numpy_absent,
    ),
    Variation(
        name="aslr",
        words="address layout",
        values=("random",),
        valid=lambda value: value == "random",
        expectation=Expectation.MUST_NOT_MATTER,
        source="https://man7.org/linux/man-pages/man2/personality.2.html",
        change=_random_addresses,
        absent=_aslr_absent,
    ),
    Variation(
        name="fill",
        words="fill of uninitialised memory",
        values=("off",),
        valid=lambda value: value == "off",
        expectation=Expectation.MUST_NOT_MATTER,
        source="https://docs.pytorch.org/docs/stable/deterministic.html",
        change=_no_fill,
    ),
    Variation(
        name="tz",
        words="time zone",
        values=("UTC-14",),
        valid=_word,
        expectation=Expectation.MUST_NOT_MATTER,
        source=f"{_REPRODUCIBLE_BUILDS}timezones/",
        change=_in_process("tz"),
    ),
    Variation(
        name="locale",
        words="locale",
        values=("C", "de_DE.UTF-8"),
        valid=_word,
        expectation=Expectation.MUST_NOT_MATTER,
        source=f"{_REPRODUCIBLE_BUILDS}locales/",
        change=_variables("LC_ALL"),
        absent=_locale_absent,
    ),
    Variation(
        name="umask",
        words="umask",
        values=("077",),
        valid=lambda value: len(value) < 5 and value != "" and not value.strip("01234567"),
        expectation=Expectation.MUST_NOT_MATTER,
        source=f"{_REPRODUCIBLE_BUILDS}archives/",
        change=_in_process("umask"),
    ),
    Variation(
        name="cwd",
        words="current folder",
        values=("fresh",),
        valid=lambda value: value == "fresh",
        expectation=Expectation.MUST_NOT_MATTER,
        source=f"{_REPRODUCIBLE_BUILDS}build-path/",
        change=_in_process("cwd"),
        for_scripts=False,  # each of their runs has a copy of the folder, at one path
    ),
    Variation(
        name="home",
        words="home folder",
        values=("fresh",),
        valid=lambda value: value == "fresh",
        expectation=Expectation.MUST_NOT_MATTER,
        source=f"{_REPRODUCIBLE_BUILDS}env-variations/",
        change=_in_process("home"),
    ),
    Variation(
        name="tmpdir",
        words="folder for temporary files",
        values=("fresh",),
        valid=lambda value: value == "fresh",
        expectation=Expectation.MUST_NOT_MATTER,
        source=f"{_REPRODUCIBLE_BUILDS}env-variations/",
        change=_in_process("tmpdir"),
    ),
    Variation(
        name="file-order",
        words="directory order",
        values=("reversed",),
        valid=lambda value: value == "reversed",
        expectation=Expectation.MUST_NOT_MATTER,
        source=f"{_REPRODUCIBLE_BUILDS}stable-inputs/",
        change=_in_process("file-order"),
    ),
    Variation(
        name="clock",
        words="time",
        values=("2031-02-03T04:05:06+00:00",),
        valid=_time,
        expectation=Expectation.MUST_NOT_MATTER,
        source=f"{_REPRODUCIBLE_BUILDS}timestamps/",
        change=_in_process("clock"),
    ),
    Variation(
        name="contention",
        words="other work on the same cores",
        values=("busy",),
        valid=lambda value: value == "busy",
        expectation=Expectation.MUST_NOT_MATTER,
        source="https://docs.pytorch.org/docs/stable/notes/randomness.html",
        change=_in_process("contention"),
        by_default=False,
    ),
    Variation(
        name="dataloader-workers",
        words="number of DataLoader workers",
        values=("0", "1", "3"),
        valid=_whole_number,
        expectation=Expectation.PART_OF_CLAIM,
        source="https://docs.pytorch.org/docs/stable/data.html#data-loading-randomness",
        change=_in_process("dataloader-workers"),
        absent=_knob_absent,
        for_scripts=False,
    ),
    Variation(
        name="autotune",
        words="autotuning of compiled code",
        values=("max",),
        valid=lambda value: value == "max",
        expectation=Expectation.PART_OF_CLAIM,
        source="https://docs.pytorch.org/docs/stable/generated/torch.compile.html",
        change=_in_process("autotune"),
        absent=_uncompiled,
        by_default=False,
    ),
    Variation(
        name="sdpa-backend",
        words="kernel of scaled dot product attention",
        values=("math", "flash", "efficient"),
        valid=lambda value: value in ("math", "flash", "efficient"),
        expectation=Expectation.PART_OF_CLAIM,
        source="https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",
        change=_in_process("sdpa-backend"),
    ),
    Variation(
        name="cublas-workspace",
        words="workspace of cuBLAS",
        values=(":4096:8", ":16:8"),
        valid=lambda value: value in (":4096:8", ":16:8"),
        expectation=Expectation.PART_OF_CLAIM,
        source="https://docs.nvidia.com/cuda/cublas/#results-reproducibility",
        change=_variables(CUBLAS_VARIABLE),
        devices=("cuda",),
    ),
    Variation(
        name="cudnn-benchmark",
        words="cuDNN's benchmark",
        values=("on",),
        valid=lambda value: value == "on",
        expectation=Expectation.PART_OF_CLAIM,
        source="https://docs.pytorch.org/docs/stable/notes/randomness.html#cuda-convolution-benchmarking",
        change=_in_process("cudnn-benchmark"),
        devices=("cuda",),
    ),
    Variation(
        name="tf32",
        words="TF32",
        values=("on", "off"),
        valid=lambda value: value in ("on", "off"),
        expectation=Expectation.PART_OF_CLAIM,
        source="https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices",
        change=_in_process("tf32"),
        devices=("cuda",),
    ),
    Variation(
        name="launch-blocking",
        words="blocking of kernel launches",
        values=("1",),
        valid=lambda value: value == "1",
        expectation=Expectation.MUST_NOT_MATTER,
        source="https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution",
        change=_variables("CUDA_LAUNCH_BLOCKING"),
        devices=("cuda",),
    ),
    Variation(
        name="allocator",
        words="allocator of device memory",
        values=("uncached", "expandable"),
        valid=lambda value: value in ("uncached", "expandable"),
        expectation=Expectation.MUST_NOT_MATTER,
        source="https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf",
        change=_variables(
            uncached={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
            expandable={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
        ),
        devices=("cuda",),
    ),
    Variation(
        name="device-index",
        words="device of the same model",
        values=("cuda:0", "cuda:1"),
        valid=lambda value: value.removeprefix("cuda:").isdecimal() and value.startswith("cuda:"),
        expectation=Expectation.MUST_NOT_MATTER,
        source="https://docs.nvidia.com/cuda/cublas/#results-reproducibility",
        change=_other_device,
        absent=_device_absent,
        devices=("cuda",),
        for_scripts=False,  # which device a script uses is the script's own affair
    ),
)


def read_cpu_flags() -> frozenset[str]:
    """Features of the processor, as Linux names them; none where it does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), ()))


def resolved(variation: Variation, values: tuple[str, ...]) -> tuple[str, ...]:
    """The values with words like ``all`` in numbers, each once."""
    if variation.name == "threads":
        values = tuple(str(usable_cores() or os.cpu_count() or 1) if value == "all" else value for value in values)
    return tuple(dict.fromkeys(values))
