"""Changes on purpose what a process under test runs under, and reads back what it ran under."""

import locale
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from repro_audit.settings import CUBLAS_VARIABLE
from repro_audit.worker.alignment import align_arrays
from repro_audit.worker.memory import FILLS, fill_new_memory
from repro_audit.worker.observation.entropy import fix_entropy
from repro_audit.worker.observation.surroundings import fix_clock, fix_process
from repro_audit.worker.personality import addresses_are_fixed

_AT_START = dict(os.environ)
"""Variables as this process was started with them: what it sets itself comes too late for those read at the start."""

KNOB = "dataloader_workers"
"""Class attribute of a workload that says how many workers its DataLoader has."""

_ATTENTION = ("math", "flash", "mem_efficient", "cudnn")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a run is made."""

    device: torch.device
    scratch: Path
    """A folder that is gone after the run; nothing lies in it."""


def apply_conditions(conditions: Mapping[str, str], place: Place) -> None:
    """Changes what can be changed in a running process; before the first op, and before CUDA is used.

    Args:
        conditions: Name of a variation to its value; or ``process`` or ``entropy``, which can only be fixed.

    Raises:
        KeyError: There is no such condition.
    """
    for name, value in conditions.items():
        _CHANGES[name](value, place)


def read_conditions(conditions: Mapping[str, str]) -> dict[str, str]:
    """What the process ran under, as it stands now; what cannot be read is as it was asked for, or left alone.

    Args:
        conditions: As they were applied.
    """
    found = {name: conditions.get(name, "as it is") for name in _CHANGES}
    for name, reader in _READERS.items():
        with suppress(AttributeError, OSError, RuntimeError, ValueError):  # not in this release, or not on this system
            found[name] = reader()
    return found


def vary_class(workload_class: type[Any], conditions: Mapping[str, str]) -> None:
    """Sets the knobs that a workload itself offers."""
    if (value := conditions.get("dataloader-workers")) is not None:
        setattr(workload_class, KNOB, int(value))


# ------------------------------------------------------------------------------------------- changing


def _variable(name: str) -> Callable[[str, Place], None]:
    """Sets a variable that libraries read at their first use, and not when the process starts."""

    def change(value: str, _: Place) -> None:
        os.environ[name] = value

    return change


def _malloc(_: str, __: Place) -> None:
    fill_new_memory(FILLS[1])


def _alignment(value: str, _: Place) -> None:
    align_arrays(int(value))


def _time_zone(value: str, _: Place) -> None:
    os.environ["TZ"] = value
    time.tzset()


def _umask(value: str, _: Place) -> None:
    os.umask(int(value, 8))


def _current_folder(_: str, place: Place) -> None:
    os.chdir(_fresh(place, "cwd"))
    if "PWD" in os.environ:
        os.environ["PWD"] = os.getcwd()


def _home(_: str, place: Place) -> None:
    os.environ["HOME"] = _fresh(place, "home")


def _temporary_folder(_: str, place: Place) -> None:
    os.environ["TMPDIR"] = _fresh(place, "tmp")
    tempfile.tempdir = None  # found anew at the next use


def _fresh(place: Place, name: str) -> str:
    folder = place.scratch / name
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def _file_order(_: str, __: Place) -> None:
    listed, scanned = os.listdir, os.scandir

    def listdir(*arguments: Any, **keywords: Any) -> list[Any]:
        return listed(*arguments, **keywords)[::-1]

    vars(os).update(listdir=listdir, scandir=lambda *arguments: _Reversed(scanned(*arguments)))


class _Reversed:
    """The entries of a folder from the last to the first, as `os.scandir` gives them."""

    def __init__(self, entries: Any) -> None:
        with entries:
            self._entries = iter(list(entries)[::-1])

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> "_Reversed":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """All entries have been read already."""


def _clock(value: str, _: Place) -> None:
    fix_clock(start_seconds=int(datetime.fromisoformat(value).timestamp()))


def _contention(_: str, place: Place) -> None:
    """Starts as many busy processes as there are cores, and one on the GPU; they end with this one's group."""
    for _unused in range(torch.get_num_threads() if place.device.type == "cpu" else 1):
        if os.fork() == 0:
            _keep_busy(place.device, os.getppid())


def _keep_busy(device: torch.device, parent: int) -> None:
    with suppress(BaseException):  # this process has nothing to tell
        signal.signal(signal.SIGABRT, signal.SIG_DFL)
        if device.type == "cuda":
            square = torch.rand(2048, 2048, device=device)
            while os.getppid() == parent:
                square = torch.tanh(square @ square)
                torch.cuda.synchronize(device)
        while os.getppid() == parent:
            sum(range(10_000))
    os._exit(0)


def _autotune(_: str, __: Place) -> None:
    import torch._inductor.config  # a warm interpreter has it already

    torch._inductor.config.max_autotune = True


def _attention(value: str, _: Place) -> None:
    """Allows one kernel beside the plain one, which is what remains where the other cannot take the inputs."""
    chosen = {"efficient": "mem_efficient"}.get(value, value)
    for name in _ATTENTION:
        getattr(torch.backends.cuda, f"enable_{name}_sdp")(name in ("math", chosen))


def _cudnn_benchmark(_: str, __: Place) -> None:
    torch.backends.cudnn.benchmark = True


def _tf32(value: str, _: Place) -> None:
    torch.backends.cuda.matmul.allow_tf32 = value == "on"
    torch.backends.cudnn.allow_tf32 = value == "on"


def _process(_: str, __: Place) -> None:
    fix_process()


def _entropy(_: str, __: Place) -> None:
    fix_entropy()


def _by_the_class(_: str, __: Place) -> None:
    """Set by `vary_class`, once the class is there."""


_CHANGES: dict[str, Callable[[str, Place], None]] = {
    "cpu-capability": _variable("ATEN_CPU_CAPABILITY"),
    "mkl-cbwr": _variable("MKL_CBWR"),
    "onednn-isa": _variable("ONEDNN_MAX_CPU_ISA"),
    "malloc": _malloc,
    "alignment": _alignment,
    "tz": _time_zone,
    "umask": _umask,
    "cwd": _current_folder,
    "home": _home,
    "tmpdir": _temporary_folder,
    "file-order": _file_order,
    "clock": _clock,
    "contention": _contention,
    "dataloader-workers": _by_the_class,
    "autotune": _autotune,
    "sdpa-backend": _attention,
    "cudnn-benchmark": _cudnn_benchmark,
    "tf32": _tf32,
    "process": _process,
    "entropy": _entropy,
}

# ------------------------------------------------------------------------------------------- reading back


def _umask_now() -> str:
    mask = os.umask(0o077)
    os.umask(mask)
    return f"{mask:03o}"


def _locale() -> str:
    named = next((_AT_START[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if _AT_START.get(name)), None)
    return named or locale.setlocale(locale.LC_CTYPE)


def _compiled() -> str:
    utilities: Any = sys.modules.get("torch._dynamo.utils")
    inductor: Any = sys.modules.get("torch._inductor.config")
    if utilities is None or inductor is None or not utilities.counters["stats"]["unique_graphs"]:
        return "nothing compiled"
    return "max" if inductor.max_autotune else "off"


def _attention_now() -> str:
    return " ".join(name for name in _ATTENTION if getattr(torch.backends.cuda, f"{name}_sdp_enabled")())


def _tf32_now() -> str:
    allowed = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    words = {(True, True): "on", (False, False): "off"}
    return words.get(allowed, f"matmul {'on' if allowed[0] else 'off'}, cuDNN {'on' if allowed[1] else 'off'}")


def _environment(name: str) -> Callable[[], str]:
    return lambda: os.environ.get(name, "not set")


def _started_with(name: str) -> Callable[[], str]:
    return lambda: _AT_START.get(name, "not set")


_READERS: dict[str, Callable[[], str]] = {
    "hashseed": _started_with("PYTHONHASHSEED"),
    "threads": lambda: str(torch.get_num_threads()),
    "cpu-capability": lambda: torch.backends.cpu.get_cpu_capability().lower(),
    "mkl-cbwr": _environment("MKL_CBWR"),
    "onednn-isa": _environment("ONEDNN_MAX_CPU_ISA"),
    "aslr": lambda: "fixed" if addresses_are_fixed() else "random",
    "fill": lambda: "on" if torch._C._get_deterministic_fill_uninitialized_memory() else "off",
    "tz": lambda: os.environ.get("TZ") or " ".join(time.tzname),
    "locale": _locale,
    "umask": _umask_now,
    "cwd": os.getcwd,
    "home": _environment("HOME"),
    "tmpdir": tempfile.gettempdir,
    "autotune": _compiled,
    "sdpa-backend": _attention_now,
    "cublas-workspace": _started_with(CUBLAS_VARIABLE),
    "cudnn-benchmark": lambda: "on" if torch.backends.cudnn.benchmark else "off",
    "tf32": _tf32_now,
    "launch-blocking": _started_with("CUDA_LAUNCH_BLOCKING"),
    "allocator": lambda: (
        " ".join(
            f"{name}={os.environ[name]}"
            for name in ("PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_CUDA_ALLOC_CONF")
            if name in os.environ
        )
        or "default"
    ),
}
