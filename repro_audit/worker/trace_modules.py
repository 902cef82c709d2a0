"""The path of the module whose forward is running."""

from fnmatch import fnmatchcase
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from repro_audit.trace_file import Names


class ModulePaths:
    """Follows modules as they are called, under the names they have in the outermost of them."""

    def __init__(self, pattern: str | None) -> None:
        self.path = ""
        self._pattern = pattern
        self._wanted: dict[int, bool] = {}
        self._stack: list[str] = []
        self._names: dict[int, str] = {}
        self._handles: list[Any] = []

    def follow(self) -> None:
        """Begins to."""
        self._handles = [
            register_module_forward_pre_hook(self._begins),
            register_module_forward_hook(self._ends, always_call=True),
        ]

    def leave(self) -> None:
        """Ends it."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._stack.clear()
        self.path = ""

    def wanted(self, number: int, names: Names) -> bool:
        """Whether the path of a number fits the pattern, with or without the class of the outermost module in front."""
        if self._pattern is None:
            return True
        known = self._wanted.get(number)
        if known is None:
            path = names.text(number)
            inner = path.partition(".")[2]
            known = self._wanted[number] = fnmatchcase(path, self._pattern) or fnmatchcase(inner, self._pattern)
        return known

    def _begins(self, module: torch.nn.Module, _: Any) -> None:
        if torch.compiler.is_compiling():
            return
        if not self._stack:
            outermost = type(module).__name__
            self._names = {
                id(one): f"{outermost}.{name}" if name else outermost for name, one in module.named_modules()
            }
        self._stack.append(self._names.get(id(module), type(module).__name__))
        self.path = self._stack[-1]

    def _ends(self, *_: Any) -> None:
        if torch.compiler.is_compiling():
            return
        if self._stack:
            self._stack.pop()
        self.path = self._stack[-1] if self._stack else ""
