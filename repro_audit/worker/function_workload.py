"""Makes a workload of a function: each step calls it."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch


def workload_of(function: Callable[..., Any]) -> type[Any]:
    """A class that calls the function once per step, with the device where it takes one.

    What it returns is the state: a loss alone, or a mapping with a ``loss`` and everything else that must be equal.

    Raises:
        TypeError: It is no function, or, in a step, returned no loss.
    """
    if not callable(function):
        raise TypeError(f"{function!r} is neither a class nor a function")
    takes_device = bool(inspect.signature(function).parameters)
    name = getattr(function, "__name__", "the function")

    class FunctionWorkload:
        def setup(self, device: torch.device) -> None:
            self.arguments = (device,) if takes_device else ()
            self.returned: dict[str, Any] = {}

        def step(self) -> Any:
            returned = function(*self.arguments)
            self.returned = dict(returned) if isinstance(returned, Mapping) else {"returned": returned}
            loss = self.returned.get("loss", returned)
            if not hasattr(loss, "__float__") or (isinstance(loss, torch.Tensor) and loss.numel() != 1):
                raise TypeError(
                    f"{name}() returned {type(returned).__name__} without a loss; return a number, a tensor of one "
                    "element, or a mapping with such a 'loss' and all else that must be equal"
                )
            return loss

        def state(self) -> dict[str, Any]:
            return self.returned

    return FunctionWorkload
