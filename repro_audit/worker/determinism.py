"""Arms a mode, reads every flag back, and watches that the workload leaves strict mode alone."""

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Container, Iterator
from typing import Any

import torch

from repro_audit.records import Breach, Mode, SourceLine
from repro_audit.settings import CUBLAS_VALUES, CUBLAS_VARIABLE
from repro_audit.worker.source_lines import line_of_stack

_VARIABLES = ("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "CUBLASLT_WORKSPACE_SIZE")
"""Environment variables that overrule the settings below, shown where they are set."""

_ALGORITHMS = "deterministic_algorithms"


def arm(mode: Mode) -> None:
    """Switches on what the mode demands.

    Source: https://docs.pytorch.org/docs/stable/notes/randomness.html. Filling of uninitialised memory is left at its
    default, on: https://docs.pytorch.org/docs/stable/deterministic.html.
    """
    if mode is Mode.DEFAULT:
        return  # as PyTorch starts, and as whoever trains without strict mode has it
    warn_only = mode is Mode.WARN_ONLY
    # Deterministic kernels where there are some, an error (or a warning) where there are none.
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    # Convolution algorithms that repeat; the switch above implies it, and is not what everybody reads.
    torch.backends.cudnn.deterministic = True
    # A benchmark chooses the algorithm by the clock, so another one may win next time.
    torch.backends.cudnn.benchmark = False
    # PyTorch shows some warnings once per process; an inventory counts all.
    torch.set_warn_always(warn_only)
    if mode is Mode.NO_FILL:
        torch._C._set_deterministic_fill_uninitialized_memory(False)


def disarm() -> None:
    """Leaves PyTorch as it starts, after `arm`."""
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.deterministic = False


def _demanded(mode: Mode) -> dict[str, tuple[Callable[[], object], object]]:
    """Setting to its getter and the value that the mode demands; the default mode demands nothing."""
    if mode is Mode.DEFAULT:
        return {}
    demanded: dict[str, tuple[Callable[[], object], object]] = {
        _ALGORITHMS: (torch._C._get_deterministic_algorithms, True),
        f"{_ALGORITHMS}.warn_only": (torch._C._get_deterministic_algorithms_warn_only, mode is Mode.WARN_ONLY),
        "fill_uninitialized_memory": (
            torch._C._get_deterministic_fill_uninitialized_memory,
            mode is not Mode.NO_FILL,
        ),
        "cudnn.deterministic": (torch._C._get_cudnn_deterministic, True),
        "cudnn.benchmark": (torch._C._get_cudnn_benchmark, False),
    }
    inductor: Any = sys.modules.get("torch._inductor.config")
    if hasattr(inductor, "deterministic"):  # set by `torch.use_deterministic_algorithms`, not in PyTorch 2.9
        demanded["inductor.deterministic"] = lambda: inductor.deterministic, True
    return demanded


class Watch:
    """Notices when a workload undoes the armed mode, at any `check` or, through the setters, in between.

    What counts is the value, whoever sets it: PyTorch itself calls these setters only to restore what it found
    (``torch/_dynamo/convert_frame.py``), so that a setter called with the demanded value is no breach. Nor is a cuDNN
    setting while cuDNN is switched off, as by ``torch.backends.cudnn.flags(enabled=False)``. A script that arms strict
    mode itself does not undo a warn_only run: the setter then keeps warning.
    """

    def __init__(self, mode: Mode, varied: Container[str] = ()) -> None:
        self._warn_only = mode is Mode.WARN_ONLY
        self._demanded = _demanded(mode)
        if "cudnn-benchmark" in varied:  # by the audit itself, on purpose
            self._demanded["cudnn.benchmark"] = (torch._C._get_cudnn_benchmark, True)
        self._cublas_workspace = os.environ.get(CUBLAS_VARIABLE)
        self._breaches: dict[tuple[str, SourceLine | None], Breach] = {}
        self._repeat = self._step = 0
        self._stack = contextlib.ExitStack()

    @property
    def breaches(self) -> tuple[Breach, ...]:
        """Every breach once; those whose line was seen first."""
        located = [breach for breach in self._breaches.values() if breach.location is not None]
        settings = {breach.setting for breach in located}
        return (*located, *(breach for breach in self._breaches.values() if breach.setting not in settings))

    def forget(self) -> None:
        """Drops what was noticed so far: a forked process answers for itself."""
        self._breaches.clear()

    def __enter__(self) -> "Watch":
        if not self._demanded:
            return self
        self._replace(torch._C, "_set_deterministic_algorithms", self._algorithms_set)
        self._replace(
            torch._C, "_set_deterministic_fill_uninitialized_memory", self._one_set("fill_uninitialized_memory")
        )
        for name in ("deterministic", "benchmark"):
            watched = self._one_set(f"cudnn.{name}")
            self._replace(torch._C, f"_set_cudnn_{name}", watched)
            # `torch.backends.cudnn.<name> = ...` holds on to the setter it was made with.
            self._replace(vars(type(torch.backends.cudnn))[name], "setter", watched)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def check(self, repeat: int, step: int) -> None:
        """Reads the demanded settings back; called before and after everything the workload does."""
        self._repeat, self._step = repeat, step
        armed = torch._C._get_deterministic_algorithms()
        for setting, (getter, demanded) in self._demanded.items():
            if armed or setting not in (f"{_ALGORITHMS}.warn_only", "inductor.deterministic"):  # else said by the first
                self._expect(setting, demanded, getter(), None)
        workspace = os.environ.get(CUBLAS_VARIABLE)
        if workspace in CUBLAS_VALUES and (self._cublas_workspace in CUBLAS_VALUES or not torch.cuda.is_initialized()):
            self._cublas_workspace = workspace  # cuBLAS repeats with it as well, or has not read it yet
        self._expect(CUBLAS_VARIABLE, self._cublas_workspace, workspace, None)

    def _expect(self, setting: str, expected: object, found: object, location: SourceLine | None) -> None:
        if found == expected or (setting.startswith("cudnn.") and not torch._C._get_cudnn_enabled()):
            return
        if (setting, location) not in self._breaches:
            self._breaches[setting, location] = Breach(
                setting=setting,
                expected=str(expected),
                found=str(found),
                repeat=self._repeat,
                step=self._step,
                location=location,
            )

    def _replace(self, owner: object, name: str, watched: Callable[..., None]) -> None:
        """Has `watched` called in the place of a setter, and with it; Python code looks setters up at each call."""
        original = getattr(owner, name)
        self._stack.callback(setattr, owner, name, original)
        setattr(owner, name, functools.partial(watched, original))

    def _algorithms_set(self, setter: Callable[..., None], mode: bool, *, warn_only: bool = False) -> None:
        if mode:
            # Strict mode would end this dry run at its first alert, and an inventory lists all.
            warn_only = warn_only or self._warn_only
        setter(mode, warn_only=warn_only)
        location = line_of_stack(sys._getframe(1))
        self._expect(_ALGORITHMS, True, mode, location)
        if mode:
            self._expect(f"{_ALGORITHMS}.warn_only", self._warn_only, warn_only, location)

    def _one_set(self, setting: str) -> Callable[..., None]:
        def watched(setter: Callable[[Any], None], value: Any) -> None:
            setter(value)
            self._expect(setting, self._demanded[setting][1], value, line_of_stack(sys._getframe(1)))

        return watched


def read_flags() -> dict[str, str]:
    """Every setting that determinism or precision depends on, as read back now.

    A setting that this release of PyTorch does not have is left out; one that it refuses to tell, as it does for old
    and new TF32 settings that contradict each other, stands there with its error.
    """
    flags: dict[str, str] = {}
    for name, getter in _getters():
        try:
            flags[name] = str(getter())
        except AttributeError:
            continue
        except RuntimeError as error:
            flags[name] = f"unreadable: {str(error).splitlines()[0]}"
    flags[CUBLAS_VARIABLE] = os.environ.get(CUBLAS_VARIABLE, "not set")
    flags.update({name: os.environ[name] for name in _VARIABLES if name in os.environ})
    return flags


def _getters() -> Iterator[tuple[str, Callable[[], object]]]:
    yield _ALGORITHMS, torch.are_deterministic_algorithms_enabled
    yield f"{_ALGORITHMS}.warn_only", torch.is_deterministic_algorithms_warn_only_enabled
    yield "fill_uninitialized_memory", torch._C._get_deterministic_fill_uninitialized_memory
    inductor: Any = sys.modules.get("torch._inductor.config")
    if inductor is not None:  # imported by PyTorch when it arms itself, and at the first use
        yield "inductor.deterministic", lambda: inductor.deterministic
    for name in ("enabled", "deterministic", "benchmark", "benchmark_limit", "allow_tf32", "fp32_precision"):
        yield f"cudnn.{name}", lambda name=name: getattr(torch.backends.cudnn, name)  # type: ignore[misc]
    for operation in ("conv", "rnn"):
        yield (
            f"cudnn.{operation}.fp32_precision",
            lambda operation=operation: getattr(torch.backends.cudnn, operation).fp32_precision,  # type: ignore[misc]
        )
    yield "float32_matmul_precision", torch.get_float32_matmul_precision
    for name in (
        "allow_tf32",
        "fp32_precision",
        "allow_fp16_reduced_precision_reduction",
        "allow_bf16_reduced_precision_reduction",
        "allow_fp16_accumulation",
    ):
        yield f"cuda.matmul.{name}", lambda name=name: getattr(torch.backends.cuda.matmul, name)  # type: ignore[misc]
    for name in ("flash", "mem_efficient", "math", "cudnn"):
        yield (
            f"scaled_dot_product_attention.{name}",
            lambda name=name: getattr(torch.backends.cuda, f"{name}_sdp_enabled")(),  # type: ignore[misc]
        )
    for name in ("enabled", "deterministic", "allow_tf32"):
        yield f"mkldnn.{name}", lambda name=name: getattr(torch.backends.mkldnn, name)  # type: ignore[misc]
    yield "mkldnn.matmul.fp32_precision", lambda: torch.backends.mkldnn.matmul.fp32_precision  # type: ignore[attr-defined]
    yield "default_dtype", torch.get_default_dtype
    # No getter tells, but arithmetic of this thread does.
    yield "flush_denormal", lambda: sys.float_info.min / 2 == 0.0
    yield "num_threads", torch.get_num_threads
    yield "num_interop_threads", torch.get_num_interop_threads
    yield "anomaly_mode", torch.is_anomaly_enabled
    yield "grad_enabled", torch.is_grad_enabled
    for device_type in ("cpu", "cuda"):
        yield (
            f"autocast.{device_type}",
            lambda device_type=device_type: torch.is_autocast_enabled(device_type),  # type: ignore[misc]
        )
        yield (
            f"autocast.{device_type}.dtype",
            lambda device_type=device_type: torch.get_autocast_dtype(device_type),  # type: ignore[misc]
        )
