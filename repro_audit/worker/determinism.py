"""Arms a mode, reads every flag back, and watches that the workload leaves strict mode alone."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from repro_audit.records import Breach, Mode, SourceLine
from repro_audit.settings import CUBLAS_VARIABLE
from repro_audit.worker.source_lines import line_of_stack


def arm(mode: Mode) -> None:
    """Switches on what the mode demands.

    Source: https://docs.pytorch.org/docs/stable/notes/randomness.html. Filling of uninitialised memory is left at its
    default, on: https://docs.pytorch.org/docs/stable/deterministic.html.
    """
    warn_only = mode is Mode.WARN_ONLY
    # Deterministic kernels where there are some, an error (or a warning) where there are none.
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    # Convolution algorithms that repeat; the switch above implies it, and is not what everybody reads.
    torch.backends.cudnn.deterministic = True
    # A benchmark chooses the algorithm by the clock, so another one may win next time.
    torch.backends.cudnn.benchmark = False
    # PyTorch shows some warnings once per process; an inventory counts all.
    torch.set_warn_always(warn_only)


def _demanded(mode: Mode) -> dict[str, tuple[Callable[[], object], object]]:
    """Setting to its getter and the value that the mode demands."""
    return {
        "deterministic_algorithms": (torch._C._get_deterministic_algorithms, True),
        "deterministic_algorithms.warn_only": (
            torch._C._get_deterministic_algorithms_warn_only,
            mode is Mode.WARN_ONLY,
        ),
        "fill_uninitialized_memory": (torch._C._get_deterministic_fill_uninitialized_memory, True),
        "cudnn.deterministic": (torch._C._get_cudnn_deterministic, True),
        "cudnn.benchmark": (torch._C._get_cudnn_benchmark, False),
    }


class Watch:
    """Notices when a workload undoes the armed mode, at any `check` or, through the setters, in between.

    A setter that is called with the demanded value is no breach, nor is a cuDNN setting while cuDNN is switched off,
    as ``torch.backends.cudnn.flags(enabled=False)`` does.
    """

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._demanded = _demanded(mode)
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

    def __enter__(self) -> "Watch":
        self._stack.enter_context(self._watching("_set_deterministic_algorithms", self._deterministic_set))
        self._stack.enter_context(
            self._watching("_set_deterministic_fill_uninitialized_memory", self._one_set("fill_uninitialized_memory"))
        )
        for name in ("deterministic", "benchmark"):
            watched = self._one_set(f"cudnn.{name}")
            self._stack.enter_context(self._watching(f"_set_cudnn_{name}", watched))
            self._stack.enter_context(self._watching_property(name, watched))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def check(self, repeat: int, step: int) -> None:
        """Reads the demanded settings back; called before and after everything the workload does."""
        self._repeat, self._step = repeat, step
        for setting, (getter, demanded) in self._demanded.items():
            self._expect(setting, demanded, getter(), None)
        self._expect(CUBLAS_VARIABLE, self._cublas_workspace, os.environ.get(CUBLAS_VARIABLE), None)

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

    def _deterministic_set(self, mode: bool, *, warn_only: bool = False) -> dict[str, Any]:
        if mode and self._mode is Mode.WARN_ONLY:
            # A script that arms strict mode itself would turn this dry run into a strict one, which lists one alert.
            warn_only = True
        location = line_of_stack(sys._getframe(2))
        self._expect("deterministic_algorithms", True, mode, location)
        self._expect("deterministic_algorithms.warn_only", self._mode is Mode.WARN_ONLY, warn_only, location)
        return {"mode": mode, "warn_only": warn_only}

    def _one_set(self, setting: str) -> Callable[..., dict[str, Any]]:
        expected = self._demanded[setting][1]

        def seen(value: Any) -> dict[str, Any]:
            self._expect(setting, expected, value, line_of_stack(sys._getframe(2)))
            return {}

        return seen

    @contextlib.contextmanager
    def _watching(self, name: str, seen: Callable[..., dict[str, Any]]) -> Iterator[None]:
        """Has `seen` told of every call of a setter of `torch._C`, which Python code looks up at each call."""
        original = getattr(torch._C, name)

        def setter(*arguments: Any, **keywords: Any) -> Any:
            changed = seen(*arguments, **keywords)
            if "mode" in changed:
                return original(changed["mode"], warn_only=changed["warn_only"])
            return original(*arguments, **keywords)

        setattr(torch._C, name, setter)
        try:
            yield
        finally:
            setattr(torch._C, name, original)

    @contextlib.contextmanager
    def _watching_property(self, name: str, seen: Callable[..., dict[str, Any]]) -> Iterator[None]:
        """The same for ``torch.backends.cudnn.<name> = ...``, which holds on to the setter it was made with."""
        descriptor: Any = vars(type(torch.backends.cudnn))[name]
        original = descriptor.setter

        def setter(value: Any) -> None:
            seen(value)
            original(value)

        descriptor.setter = setter
        try:
            yield
        finally:
            descriptor.setter = original


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
    return flags


def _getters() -> Iterator[tuple[str, Callable[[], object]]]:
    yield "deterministic_algorithms", torch.are_deterministic_algorithms_enabled
    yield "deterministic_algorithms.warn_only", torch.is_deterministic_algorithms_warn_only_enabled
    yield "fill_uninitialized_memory", torch._C._get_deterministic_fill_uninitialized_memory
    yield "inductor.deterministic", lambda: sys.modules["torch._inductor.config"].deterministic
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
    yield "num_threads", torch.get_num_threads
    yield "num_interop_threads", torch.get_num_interop_threads
    yield "anomaly_mode", torch.is_anomaly_enabled
    yield "grad_enabled", torch.is_grad_enabled
    yield "autocast.cpu", lambda: torch.is_autocast_enabled("cpu")
    yield "autocast.cuda", lambda: torch.is_autocast_enabled("cuda")
