"""Ties alerts of backward ops to the forward lines that made them, by executing once more, op by op."""

import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import msgspec
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from repro_audit.records import Alert, Phase, SourceLine
from repro_audit.worker.alerts import AlertLog, refused_op
from repro_audit.worker.source_lines import line_of_stack, recomputed_line

Attributed = Counter[tuple[str, SourceLine | None]]
"""Op and forward line to the number of its backward alerts."""

_WARNED_ONLY = {
    "aten::_flash_attention_backward": "Flash Attention",
    "aten::_scaled_dot_product_flash_attention_backward": "Flash Attention",
    "aten::_efficient_attention_backward": "Memory Efficient attention",
    "aten::_scaled_dot_product_efficient_attention_backward": "Memory Efficient attention",
    "aten::_cudnn_attention_backward": "cuDNN Attention",
    "aten::_scaled_dot_product_cudnn_attention_backward": "cuDNN Attention",
}
"""Ops that strict mode does not refuse, because they then choose a deterministic kernel, to the name in their warning.

Source: https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/transformers/cuda/attention_backward.cu
"""


class _Attribution(TorchDispatchMode):
    """Tries each op in strict mode first, and notes who is refused.

    A forward op runs right after its backward node got a number; the backward op finds it in the node it runs for. The
    engine takes this mode along into its threads for CUDA devices. Python's own threads do not have it; numbers are
    counted per thread.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.graph.Node.html
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.attributed: Attributed = Counter()
        self._lines: dict[int, SourceLine | None] = {}
        self._makers: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        frame = sys._getframe(1)
        node: Any = torch._C._current_autograd_node()  # None outside backward, whatever its stub says
        made = torch._C._autograd._get_sequence_nr() - 1
        if self._makers.setdefault(made, threading.get_ident()) != threading.get_ident():
            self._lines[made] = None  # two threads made a node of that number, and a node does not tell whose it is
        elif made not in self._lines:
            # In backward an op makes a node when a checkpoint recomputes, or when gradients are to be differentiated.
            self._lines[made] = line_of_stack(frame) if node is None else self._forward_line(frame, node)
        if node is not None and (warned := _WARNED_ONLY.get(func.name())) is not None:
            self.attributed[warned, self._forward_line(frame, node)] += 1
        torch._C._set_deterministic_algorithms(True, warn_only=False)
        try:
            return func(*args, **kwargs)
        except RuntimeError as error:
            op = refused_op(str(error))
            if op is None:
                raise
        finally:
            torch._C._set_deterministic_algorithms(True, warn_only=True)
        if node is not None:
            self.attributed[op, self._forward_line(frame, node)] += 1
        return func(*args, **kwargs)

    def _forward_line(self, frame: FrameType, node: Any) -> SourceLine | None:
        """The forward line of an op in backward: a recomputed one's own, else the one that made its node."""
        return recomputed_line(frame) or self._lines.get(node._sequence_nr())


def attribute(execute: Callable[[], None]) -> Attributed:
    """Executes under observation and returns what the refused backward ops go back to.

    Args:
        execute: Does once more what raised the alerts. The process is armed with ``warn_only``.

    Raises:
        BaseException: Whatever `execute` raises; some ops do not run under a dispatch mode.
    """
    mode = _Attribution()
    with AlertLog(), mode:  # the log keeps the alerts, seen once before, from stderr and from the workload's filters
        execute()
    return mode.attributed


def with_forward_locations(alerts: Sequence[Alert], attributed: Attributed) -> tuple[Alert, ...]:
    """The alerts with the forward lines of the backward ones, where what was attributed allows no doubt.

    One forward line takes all alerts of its op. Several lines share them only if their numbers add up to what was
    observed from a single ``backward()`` line; else the alert keeps its count and no line.
    """
    result: list[Alert] = []
    for alert in alerts:
        lines = {line: count for (op, line), count in attributed.items() if op == alert.op and line is not None}
        alone = sum(other.op == alert.op and other.phase is Phase.BACKWARD for other in alerts) == 1
        if alert.phase is not Phase.BACKWARD or not lines:
            result.append(alert)
        elif len(lines) == 1:
            result.append(msgspec.structs.replace(alert, forward_location=next(iter(lines))))
        elif alone and sum(lines.values()) == alert.count:
            result += [
                msgspec.structs.replace(alert, forward_location=line, count=count) for line, count in lines.items()
            ]
        else:
            result.append(alert)
    return tuple(result)
