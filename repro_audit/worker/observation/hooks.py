"""Listens at PyTorch's own points: global module and optimizer hooks, and the functions every script has to call.

Sources: https://docs.pytorch.org/docs/stable/generated/torch.nn.modules.module.register_module_forward_hook.html,
https://docs.pytorch.org/docs/stable/optim.html (``register_optimizer_step_post_hook`` is global in
``torch.optim.optimizer``). Losses, saved objects, batches and scalers have no hook: there the function is wrapped.
"""

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data.dataloader import DataLoader, _BaseDataLoaderIter

from repro_audit.script_records import Point
from repro_audit.worker.observation.files import WRITTEN
from repro_audit.worker.observation.observer import Observer


def listen(observer: Observer) -> None:
    """Hooks into this process, for good: it belongs to the script."""
    _modules(observer)
    register_optimizer_step_post_hook(functools.partial(_stepped, observer))
    _losses(observer)
    _savings(observer)
    _loaders(observer)
    _scalers(observer)


def _modules(observer: Observer) -> None:
    def begins(module: torch.nn.Module, arguments: tuple[Any, ...]) -> None:
        if not torch.compiler.is_compiling():
            observer.module_begins(module, arguments, sys._getframe(1))

    def ends(module: torch.nn.Module, _: tuple[Any, ...], output: Any) -> None:
        if not torch.compiler.is_compiling():
            observer.module_ends(module, output, sys._getframe(1))

    register_module_forward_pre_hook(begins)
    register_module_forward_hook(ends, always_call=True)


def _stepped(observer: Observer, optimizer: torch.optim.Optimizer, *_: Any) -> None:
    if torch.compiler.is_compiling():
        return
    with observer.guarded() as observing:
        if observing:
            observer.step(optimizer, sys._getframe(1))


def _losses(observer: Observer) -> None:
    for name, argument in (("backward", "tensors"), ("grad", "outputs")):
        original: Callable[..., Any] = getattr(torch.autograd, name)

        def wrapped(
            *arguments: Any, _original: Callable[..., Any] = original, _key: str = argument, **keywords: Any
        ) -> Any:
            # Inside the engine it is a checkpoint that recomputes, or a custom function: no loss of the script.
            if not torch.compiler.is_compiling() and torch._C._current_autograd_node() is None:
                with observer.guarded() as observing:
                    if observing:
                        observer.loss(arguments[0] if arguments else keywords.get(_key), sys._getframe(1))
            return _original(*arguments, **keywords)

        setattr(torch.autograd, name, functools.wraps(original)(wrapped))


def _savings(observer: Observer) -> None:
    original = torch.save

    @functools.wraps(original)
    def save(obj: object, *arguments: Any, **keywords: Any) -> None:
        with observer.guarded() as observing:
            if observing:
                observer.save(obj, sys._getframe(1))
        file = arguments[0] if arguments else keywords.get("f")
        if isinstance(file, str | os.PathLike):
            sys.audit(WRITTEN, file)
        original(obj, *arguments, **keywords)

    torch.save = torch.serialization.save = save


def _loaders(observer: Observer) -> None:
    make, advance = DataLoader.__init__, _BaseDataLoaderIter.__next__

    @functools.wraps(make)
    def made(self: Any, *arguments: Any, **keywords: Any) -> None:
        make(self, *arguments, **keywords)
        with observer.guarded() as observing:
            if observing:
                options = {
                    "workers": str(self.num_workers),
                    "in_order": str(getattr(self, "in_order", True)),
                    "sampler": type(self.sampler).__name__,
                    "generator": "own" if self.generator is not None else "default",
                }
                observer.remark(Point.LOADER, type(self).__name__, sys._getframe(1), options)

    @functools.wraps(advance)
    def advanced(self: Any) -> Any:
        batch = advance(self)
        with observer.guarded() as observing:
            if observing:
                observer.batch(self, batch, sys._getframe(1))
        return batch

    DataLoader.__init__ = made  # type: ignore[method-assign]
    _BaseDataLoaderIter.__next__ = advanced  # type: ignore[method-assign]


def _scalers(observer: Observer) -> None:
    scaler: Any = torch.amp.GradScaler
    original = scaler.update

    @functools.wraps(original)
    def update(self: Any, *arguments: Any, **keywords: Any) -> None:
        original(self, *arguments, **keywords)
        with observer.guarded() as observing:
            if observing and self.is_enabled():
                observer.scaler(self, sys._getframe(1))

    scaler.update = update
