"""The random number generators that every program shares: seeded before a repeat, and leaves of every state."""

import random
import sys
from typing import Any

import torch

from repro_audit.records import Role
from repro_audit.worker.leaves import Leaf, rng_state


def seed_generators(seed: int) -> tuple[str, ...]:
    """Seeds Python's, NumPy's and PyTorch's global generators.

    NumPy is seeded only if it was imported (PyTorch does that wherever it is installed), with the low 32 bits,
    which is all it takes. PyTorch's call covers all devices; CUDA is not initialized by it: the seed waits until
    a device is used (https://docs.pytorch.org/docs/stable/notes/randomness.html).

    Args:
        seed: -2**63 to 2**64 - 1, PyTorch's range.

    Returns:
        What was seeded: ``python``, ``numpy``, ``torch``, ``torch.cuda``.
    """
    seeded = ["python", "torch"]
    random.seed(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
        seeded.insert(1, "numpy")
    torch.manual_seed(seed)
    if torch.backends.cuda.is_built():
        seeded.append("torch.cuda")
    return tuple(seeded)


def generator_states(*, with_cuda: bool = True) -> dict[str, Leaf]:
    """Returns the state of each global generator, those of CUDA devices only once CUDA is in use.

    Args:
        with_cuda: False leaves those out: a CPU run that comes to use CUDA midway has them from then on, and its second
            repeat from the start.
    """
    # The modules' functions are methods of one hidden generator each.
    states: dict[str, object] = {"rng/python": rng_state(random.getstate.__self__)}  # type: ignore[attr-defined]
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        states["rng/numpy"] = rng_state(numpy.random.get_state.__self__)
    states["rng/torch"] = rng_state(torch.default_generator)
    if with_cuda and torch.cuda.is_initialized():
        for index, generator in enumerate(torch.cuda.default_generators):
            states[f"rng/torch.cuda.{index}"] = rng_state(generator)
    return {path: Leaf(Role.RNG, state) for path, state in states.items()}
