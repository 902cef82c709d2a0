"""The named leaves of what a workload's ``state()`` returned: everything that has to be equal bit for bit."""

import dataclasses
import enum
import json
import random
import sys
from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

import torch

from repro_audit.records import Role

DEPTH_LIMIT = 100
"""Levels of nesting; far below where Python's own recursion limit (1000 frames) would end the walk."""

UNINITIALIZED = "uninitialized"
"""Value of the leaf of a lazy module's parameter or buffer that has no shape yet."""


class LeafError(Exception):
    """A state holds something that has no name or no digest; the message says where, what, and what to do."""

    def __init__(self, path: str, value: object, problem: str) -> None:
        super().__init__(f"leaf {path!r} of type {type_name(value)} {problem}")


class Leaf(NamedTuple):
    """A part of the state that is digested on its own."""

    role: Role
    value: object


def type_name(value: object) -> str:
    """Returns the full name of the type of `value`, as in ``torch.nn.parameter.Parameter``."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def named_leaves(state: object) -> dict[str, Leaf]:
    """Flattens a nest of mappings, sequences, dataclasses, modules, optimizers and generators.

    Args:
        state: What ``state()`` returned. Modules give parameters, their gradients and buffers (also those that
            are not persistent); an object with a method ``state_dict()`` gives that; a generator gives its state.

    Returns:
        Path to leaf, in the order met: ``model/0.weight``, ``model/0.weight.grad``,
        ``optimizer/state/0/exp_avg``. A state that is itself one leaf has the path ``value``.
        The leaves are the objects themselves, no copies.

    Raises:
        LeafError: Two leaves have the same path, a nest contains itself or has no order, or a key has no stable text.
    """
    walk = _Walk()
    walk.visit("", "state", state, None)
    return walk.leaves


def rng_state(generator: object) -> object | None:
    """Returns the state of a random number generator of torch, Python or NumPy, and None for anything else.

    Torch's is its uint8 tensor; the others' is JSON, since they are nests of integers, floats and arrays.
    """
    numpy_random: Any = sys.modules.get("numpy.random")
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, random.Random) and not isinstance(generator, random.SystemRandom):
        return json.dumps(generator.getstate())
    if numpy_random is None:
        return None
    if isinstance(generator, numpy_random.Generator):
        generator = generator.bit_generator
    if isinstance(generator, numpy_random.RandomState):
        return _numpy_text(generator.get_state(legacy=False))
    if isinstance(generator, numpy_random.BitGenerator):
        return _numpy_text(generator.state)
    return None


def _numpy_text(state: Any) -> str:
    return json.dumps(state, sort_keys=True, default=lambda part: part.tolist())


class _Walk:
    """One pass over a state; `origin` is how Python would reach a value, for messages only."""

    def __init__(self) -> None:
        self.leaves: dict[str, Leaf] = {}
        self._origins: dict[str, str] = {}
        self._ancestors: list[object] = []

    def visit(self, path: str, origin: str, value: object, role: Role | None) -> None:
        if isinstance(value, torch.Tensor):
            self._tensor(path, origin, value, role or _tensor_role(value))
        elif isinstance(value, torch.nn.Module):
            self._module(f"{path}/" if path else "", origin, value)
        elif isinstance(value, str | bytes | bytearray | enum.Enum | type):
            self._add(path, origin, role or Role.VALUE, value)
        elif (state := rng_state(value)) is not None:
            self._add(path, origin, Role.RNG, state)
        elif isinstance(value, Set):
            raise LeafError(path, value, "has no order; convert it to a sorted list")
        elif (children := _children(value)) is not None:
            self._enter(path, value)
            for key, child in children:
                text = _key_text(path, key)
                self.visit(f"{path}/{text}" if path else text, f"{origin}[{key!r}]", child, role)
            self._ancestors.pop()
        elif callable(getattr(type(value), "state_dict", None)):
            self._enter(path, value)
            role = Role.OPTIMIZER if callable(getattr(value, "step", None)) or _is_scaler(value) else role
            self.visit(path, f"{origin}.state_dict()", value.state_dict(), role)  # type: ignore[attr-defined]
            self._ancestors.pop()
        else:
            self._add(path, origin, role or Role.VALUE, value)

    def _module(self, prefix: str, origin: str, module: torch.nn.Module) -> None:
        """Walks by hand: `named_parameters` would recurse for ever where a module contains itself."""
        self._enter(prefix.rstrip("/."), module)
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            self._tensor(prefix + name, f"{origin}.{name}", parameter, Role.PARAMETER)
        for name, buffer in module.named_buffers(recurse=False, remove_duplicate=False):
            self._tensor(prefix + name, f"{origin}.{name}", buffer, Role.BUFFER)
        if getattr(type(module), "get_extra_state", None) is not torch.nn.Module.get_extra_state:
            self.visit(f"{prefix}_extra_state", f"{origin}.get_extra_state()", module.get_extra_state(), Role.BUFFER)
        for name, child in module._modules.items():
            if child is not None:
                self._module(f"{prefix}{name}.", f"{origin}.{name}", child)
        self._ancestors.pop()

    def _tensor(self, path: str, origin: str, tensor: torch.Tensor, role: Role) -> None:
        if torch.nn.parameter.is_lazy(tensor):
            self._add(path, origin, role, UNINITIALIZED)
            return
        self._add(path, origin, role, tensor)
        # Asking a tensor for a gradient that autograd does not keep makes PyTorch warn.
        if (tensor.is_leaf or tensor.retains_grad) and (gradient := tensor.grad) is not None:
            self._add(f"{path or 'value'}.grad", f"{origin}.grad", Role.GRADIENT, gradient)

    def _add(self, path: str, origin: str, role: Role, value: object) -> None:
        path = path or "value"
        if path in self.leaves:
            first = self._origins[path]
            raise LeafError(path, value, f"has two sources, {first} and {origin}; rename one of the two keys")
        self.leaves[path] = Leaf(role, value)
        self._origins[path] = origin

    def _enter(self, path: str, value: object) -> None:
        if any(value is ancestor for ancestor in self._ancestors):
            raise LeafError(path, value, "contains itself; return a nest without cycles")
        if len(self._ancestors) == DEPTH_LIMIT:
            raise LeafError(path, value, f"lies more than {DEPTH_LIMIT} levels deep; return a flatter nest")
        self._ancestors.append(value)


def _tensor_role(tensor: torch.Tensor) -> Role:
    return Role.PARAMETER if isinstance(tensor, torch.nn.Parameter) else Role.VALUE


def _is_scaler(value: object) -> bool:
    return isinstance(value, torch.amp.GradScaler)


def _children(value: object) -> list[tuple[object, object]] | None:
    """Returns key and child for each part of a mapping, sequence or dataclass, None for anything else."""
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, Sequence):
        return list(enumerate(value))
    if dataclasses.is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    return None


def _key_text(path: str, key: object) -> str:
    """Returns `key` as a part of a path: the same text in every process, and without control characters."""
    if not _is_stable(key):
        raise LeafError(path, key, "is a key without a stable text; use strings or numbers as keys")
    text = key if isinstance(key, str) else repr(key)
    # State digests are built from lines, and JSON has no lone surrogates.
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _is_stable(key: object) -> bool:
    if isinstance(key, tuple):
        return all(_is_stable(part) for part in key)
    return key is None or isinstance(key, str | bytes | int | float | enum.Enum | torch.dtype | torch.device)
