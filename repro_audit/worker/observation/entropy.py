"""Listens to how generators are seeded, and can hold fixed what a script takes from outside, to test for a cause.

What the global generators are seeded with, and generators that are made without a seed, explain a divergence. Nothing
here is compared: a seed that is never used changes no result.
"""

import functools
import hashlib
import itertools
import os
import random
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch

from repro_audit.script_records import ENTROPY, OWN_GENERATOR, Point
from repro_audit.worker.observation.observer import Observer
from repro_audit.worker.source_lines import line_of_stack


def listen_to_seeds(observer: Observer) -> None:
    """Remarks every seeding of a global generator, and every generator that a script makes without a seed."""
    _seeding(observer, torch, "manual_seed", "torch")
    torch.random.manual_seed = torch.manual_seed
    _seeding(observer, torch, "seed", "torch", drawn=True)
    torch.random.seed = torch.seed
    _seeding(observer, random, "seed", "python")
    _entropy(observer)
    numpy: Any = sys.modules.get("numpy.random")
    if numpy is not None:
        _seeding(observer, numpy, "seed", "numpy")
        for name in ("default_rng", "RandomState"):
            _unseeded(observer, numpy, name)


def _seeding(observer: Observer, owner: Any, name: str, generator: str, *, drawn: bool = False) -> None:
    original: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(original)
    def seeded(*arguments: Any, **keywords: Any) -> Any:
        result = original(*arguments, **keywords)
        value = result if drawn else next(iter((*arguments, *keywords.values())), None)
        _remark(observer, Point.SEED, generator, {"value": _text(value)})
        return result

    setattr(owner, name, seeded)


def _unseeded(observer: Observer, owner: Any, name: str) -> None:
    original = getattr(owner, name)
    if isinstance(original, type):
        return  # a class has to stay one

    @functools.wraps(original)
    def made(*arguments: Any, **keywords: Any) -> Any:
        if next(iter((*arguments, *keywords.values())), None) is None:
            _remark(observer, Point.SEED, OWN_GENERATOR, {"value": "None", "function": f"numpy.random.{name}"})
        return original(*arguments, **keywords)

    setattr(owner, name, made)


def _entropy(observer: Observer) -> None:
    original = os.urandom

    @functools.wraps(original)
    def urandom(size: int, /) -> bytes:
        frame = sys._getframe(1)
        # Libraries name temporary files and connections with it; what the script itself asks for may enter training.
        if _asked_by_user(frame):
            _remark(observer, Point.SEED, ENTROPY, {"value": f"{size} bytes"}, frame)
        return original(size)

    os.urandom = urandom
    vars(random)["_urandom"] = urandom


def _asked_by_user(frame: FrameType | None) -> bool:
    """Whether nothing but the modules whose purpose is randomness stand between the script and the call."""
    while frame is not None and os.path.basename(frame.f_code.co_filename) in ("random.py", "secrets.py", "uuid.py"):
        frame = frame.f_back
    line = line_of_stack(frame)
    return frame is not None and line is not None and line.path == frame.f_code.co_filename


def _remark(
    observer: Observer, point: Point, name: str, context: dict[str, str], frame: FrameType | None = None
) -> None:
    with observer.guarded() as observing:
        if observing:
            observer.remark(point, name, frame or sys._getframe(2), context)


def _text(value: object) -> str:
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return repr(value.item())
    return "None" if value is None else f"{type(value).__name__} of {len(repr(value))} characters"


def fix_entropy(observer: Observer | None = None) -> None:
    """Has the operating system's entropy, and generators made without a seed, give the same in every run.

    Threads beside the main one keep the real entropy, except for the user's own lines: those of multiprocessing ask
    for keys at times that no run repeats.

    Args:
        observer: Remarks who takes a seed so; None where nobody wants to know.
    """
    counters: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)
    entropy = os.urandom

    def following() -> int:
        return next(counters[threading.current_thread().name])

    def urandom(size: int, /) -> bytes:
        if threading.current_thread() is not threading.main_thread() and not _asked_by_user(sys._getframe(1)):
            return entropy(size)
        seed = f"entropy {threading.current_thread().name} {following()}"
        blocks = (hashlib.sha256(f"{seed} {n}".encode()).digest() for n in range(size // 32 + 1))
        return b"".join(blocks)[:size]

    os.urandom = urandom
    vars(random)["_urandom"] = urandom  # NumPy and `secrets` ask through this one
    seed = random.Random.seed

    @functools.wraps(seed)
    def seeded(self: random.Random, a: Any = None, version: int = 2) -> None:
        seed(self, following() if a is None else a, version)

    random.Random.seed = seeded  # type: ignore[method-assign]

    class Generator(torch.Generator):
        def seed(self) -> int:
            value = following()
            self.manual_seed(value)
            if observer is not None:
                _remark(observer, Point.SEED, OWN_GENERATOR, {"value": "None", "function": "torch.Generator.seed"})
            return value

    torch.Generator = Generator  # type: ignore[misc]

    def torch_seed() -> int:
        value = following()
        torch.manual_seed(value)
        return value

    torch.seed = torch.random.seed = torch_seed
