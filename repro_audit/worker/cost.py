"""What strict mode costs in time: steps of a workload with it and without, in turns, in one process."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from repro_audit.records import Cost, Mode
from repro_audit.worker.determinism import arm, disarm
from repro_audit.worker.generators import seed_generators

FEWEST_PAIRS = 3
MOST_PAIRS = 50
ENOUGH_SECONDS = 0.005
"""Pairs are made until they have taken so long."""

PATIENCE_SECONDS = 20.0
"""No more than one pair is made once they have taken so long: steps are slow, and then vary less."""

_MODES = (Mode.STRICT, Mode.DEFAULT)


def measure_cost(construct: Callable[[], Any], device: torch.device, seed: int) -> Cost:
    """Times steps in strict and in default mode alternately.

    Args:
        construct: Makes the workload anew.

    Raises:
        BaseException: Whatever the workload raises.
    """
    workloads: dict[Mode, Any] = {}
    for mode in _MODES:
        _switch(mode)
        seed_generators(seed)
        workloads[mode] = construct()
        workloads[mode].setup(device)
        workloads[mode].step()  # the first one prepares: caches, optimizer state, compiled kernels
    ratios: list[float] = []
    began = time.perf_counter()
    while len(ratios) < MOST_PAIRS:
        elapsed = time.perf_counter() - began
        if elapsed > PATIENCE_SECONDS or (elapsed > ENOUGH_SECONDS and len(ratios) >= FEWEST_PAIRS):
            break
        # Each mode is first as often as the other: the first of a pair may find colder caches.
        order = _MODES if len(ratios) % 2 else _MODES[::-1]
        seconds = {mode: _timed(mode, workloads[mode], device) for mode in order}
        ratios.append(seconds[Mode.STRICT] / max(seconds[Mode.DEFAULT], 1e-9))
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return Cost(
        pairs=len(ratios),
        time_ratio=f"{middle:.2f}",
        time_low=f"{low:.2f}",
        time_high=f"{high:.2f}",
    )


def _switch(mode: Mode) -> None:
    if mode is Mode.DEFAULT:
        disarm()
    else:
        arm(mode)


def _timed(mode: Mode, workload: Any, device: torch.device) -> float:
    _switch(mode)
    _synchronize(device)
    start = time.perf_counter()
    workload.step()
    _synchronize(device)
    return time.perf_counter() - start


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
