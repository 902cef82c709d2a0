"""What a script trains, as far as it was seen: modules, optimizers and lone leaves of graphs, with stable names."""

import sys
import weakref
from collections import OrderedDict
from typing import Any

import torch

from repro_audit.records import Role
from repro_audit.worker.leaves import Leaf, LeafError, named_leaves

KEPT = 4
"""Modules, and optimizers, that are kept to the end of the script though it lets go of them: a function that trains
and returns takes its model along. More would keep memory that a search over many models counts on."""

_OURS = 3
"""References to a kept object when nobody else has one: ours, the loop variable's, the call's own."""

_GRAPH_LIMIT = 20_000
"""Nodes of a graph that are visited in search of leaves."""


class Names:
    """Names an object once: by the variable of the script that holds it, else by its class, numbered if asked."""

    def __init__(self, *, numbered: bool) -> None:
        self._numbered = numbered
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._taken: dict[str, int] = {}

    def of(self, subject: Any) -> str:
        """The name of a module, optimizer or scaler; the same in every run that meets its objects in the same order."""
        name = self._names.get(subject)
        if name is None:
            base = _variable(subject) or type(subject).__name__
            count = self._taken[base] = self._taken.get(base, 0) + 1
            name = base if count == 1 or not self._numbered else f"{base}#{count}"
            self._names[subject] = name
        return name


def _variable(subject: object) -> str | None:
    for name, value in list(vars(sys.modules["__main__"]).items()):
        if value is subject and not name.startswith("_"):
            return name
    return None


class Subjects:
    """The modules and optimizers that were seen last, and the leaves that belong to neither.

    Args:
        ordered: Whether they are met in the same order in every run, so that their numbers mean something.
    """

    def __init__(self, *, ordered: bool = True) -> None:
        self.names = Names(numbered=ordered)
        self._modules: OrderedDict[int, torch.nn.Module] = OrderedDict()
        self._optimizers: OrderedDict[int, torch.optim.Optimizer] = OrderedDict()
        self._lone: dict[int, torch.Tensor] = {}
        self._owned: dict[int, str] = {}

    def add_module(self, module: torch.nn.Module) -> list[torch.nn.Module]:
        """Remembers a module that was called; returns those that are let go, to be looked at a last time."""
        if id(module) in self._modules:
            self._modules.move_to_end(id(module))
            return []
        if next(module.parameters(), None) is None:
            return []  # a loss or an activation
        name = self.names.of(module)
        self._modules[id(module)] = module
        self._name_parameters(name, module)
        return [self._modules.pop(key) for key in _forgotten(self._modules)]

    def add_optimizer(self, optimizer: torch.optim.Optimizer) -> list[torch.optim.Optimizer]:
        """The same for an optimizer that made a step."""
        if id(optimizer) in self._optimizers:
            self._optimizers.move_to_end(id(optimizer))
            return []
        self.names.of(optimizer)
        self._optimizers[id(optimizer)] = optimizer
        return [self._optimizers.pop(key) for key in _forgotten(self._optimizers)]

    def _name_parameters(self, name: str, module: torch.nn.Module) -> None:
        for path, parameter in module.named_parameters():
            self._owned.setdefault(id(parameter), f"{name}.{path}")

    def rename(self) -> None:
        """Takes account of parameters that were made, moved or replaced since their module was first called."""
        self._owned.clear()
        for module in self._modules.values():
            self._name_parameters(self.names.of(module), module)

    def graph_leaves(self, roots: list[torch.Tensor]) -> dict[str, Leaf]:
        """The leaves that a loss depends on and that no module and no optimizer owns; remembered to the end."""
        held = {
            id(p)
            for optimizer in self._optimizers.values()
            for group in optimizer.param_groups
            for p in group["params"]
        }
        found: dict[str, Leaf] = {}
        for tensor in _accumulating(roots):
            if id(tensor) not in self._owned and id(tensor) not in held:
                self._lone.setdefault(id(tensor), tensor)
                found[f"leaf {len(found)}"] = Leaf(Role.PARAMETER, tensor.detach())
        if len(self._lone) > _GRAPH_LIMIT:
            self._lone.clear()
        return found

    def optimizer_leaves(self, optimizer: torch.optim.Optimizer) -> tuple[dict[str, Leaf], dict[str, str]]:
        """Parameters, gradients, state and hyperparameters of an optimizer; and of what has no name or digest, why."""
        leaves: dict[str, Leaf] = {}
        failures: dict[str, str] = {}
        for number, group in enumerate(optimizer.param_groups):
            for position, parameter in enumerate(group["params"]):
                unnamed = f"group {number}/parameter {position}"
                name = self._owned.get(id(parameter), unnamed)
                name = unnamed if name in leaves else name
                leaves[name] = Leaf(Role.PARAMETER, parameter.detach())
                if parameter.grad is not None:
                    leaves[f"{name}.grad"] = Leaf(Role.GRADIENT, parameter.grad)
                state = optimizer.state.get(parameter)
                if state:
                    try:
                        nested = named_leaves(dict(state))
                    except LeafError as error:
                        failures[f"state/{name}"] = str(error)
                        continue
                    leaves |= {f"state/{name}/{key}": Leaf(Role.OPTIMIZER, leaf.value) for key, leaf in nested.items()}
            for key, value in group.items():
                if key != "params" and isinstance(value, int | float | torch.Tensor):
                    leaves[f"group {number}/{key}"] = Leaf(Role.OPTIMIZER, value)
        return leaves, failures

    def buffers(self) -> dict[str, Leaf]:
        """The buffers of all remembered modules."""
        return {
            f"{self.names.of(module)}.{path}": Leaf(Role.BUFFER, buffer)
            for module in self._modules.values()
            for path, buffer in module.named_buffers()
        }

    def module_leaves(self, module: torch.nn.Module) -> dict[str, Leaf]:
        """Parameters and buffers of a module."""
        name = self.names.of(module)
        leaves = {f"{name}.{path}": Leaf(Role.PARAMETER, value.detach()) for path, value in module.named_parameters()}
        return leaves | {f"{name}.{path}": Leaf(Role.BUFFER, value) for path, value in module.named_buffers()}

    def final_leaves(self) -> tuple[dict[str, Leaf], dict[str, str]]:
        """All that is remembered, at the end."""
        self.rename()
        leaves: dict[str, Leaf] = {}
        failures: dict[str, str] = {}
        for module in self._modules.values():
            leaves |= self.module_leaves(module)
        for optimizer in self._optimizers.values():
            some, others = self.optimizer_leaves(optimizer)
            name = self.names.of(optimizer)
            leaves |= {
                path if path in leaves else f"{name}/{path}": leaf for path, leaf in some.items() if path not in leaves
            }
            failures |= others
        for number, tensor in enumerate(self._lone.values()):
            leaves[f"leaf {number}"] = Leaf(Role.PARAMETER, tensor.detach())
        return leaves, failures


def _forgotten(kept: "OrderedDict[int, Any]") -> list[int]:
    """Keys of what nobody else holds any more, and of what is too much, the longest unused first; never the newest."""
    keys = [key for key in list(kept)[:-1] if sys.getrefcount(kept[key]) <= _OURS - 1]
    remaining = [key for key in kept if key not in keys]
    return keys + remaining[: max(len(remaining) - KEPT, 0)]


def _accumulating(roots: list[torch.Tensor]) -> list[torch.Tensor]:
    """Leaves that a backward from these roots would accumulate gradients into, in the order of a depth-first walk."""
    waiting: list[Any] = [root.grad_fn for root in roots if root.grad_fn is not None]
    seen: set[Any] = set()
    leaves: list[torch.Tensor] = []
    while waiting and len(seen) < _GRAPH_LIMIT:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if isinstance(variable, torch.Tensor) and variable.is_leaf:
            leaves.append(variable)
        waiting += [following for following, _ in node.next_functions if following is not None]
    return leaves
