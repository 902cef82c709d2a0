"""Keeps the tool's own tensor work out of sight of whoever watches tensor work."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def undisturbed() -> Iterator[None]:
    """Takes the dispatch modes that the user, or a tracer, has pushed out of force."""
    if torch._C._len_torch_dispatch_stack() == 0:
        yield
        return
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        yield
