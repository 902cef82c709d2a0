"""What an op does with its tensors, as far as its schema says, and where the schema says too little."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

_ALLOCATING = frozenset(
    {
        "aten::empty",
        "aten::empty_like",
        "aten::empty_strided",
        "aten::empty_permuted",
        "aten::empty_quantized",
        "aten::new_empty",
        "aten::new_empty_strided",
        "aten::_efficientzerotensor",
    }
)
"""Ops whose result has no value yet."""

_OVERWRITING = frozenset(
    {
        "aten::fill_",
        "aten::zero_",
        "aten::copy_",
        "aten::normal_",
        "aten::uniform_",
        "aten::random_",
        "aten::bernoulli_",
        "aten::exponential_",
        "aten::geometric_",
        "aten::cauchy_",
        "aten::log_normal_",
        "aten::_foreach_zero_",
        "aten::_foreach_copy_",
    }
)
"""Ops for which the former content of what they write is no input."""

_REFERRING = frozenset({"aten::_unsafe_view", "aten::set_", "aten::resize_", "aten::resize_as_"})
"""Ops that have a tensor look at other memory, or more of it, whatever their schema says: they read and write none."""

_ADDING = frozenset(
    {
        "aten::add_",
        "aten::sub_",
        "aten::mul_",
        "aten::div_",
        "aten::pow_",
        "aten::addcmul_",
        "aten::addcdiv_",
        "aten::addmm_",
        "aten::addmv_",
        "aten::addbmm_",
        "aten::baddbmm_",
        "aten::lerp_",
        "aten::clamp_",
        "aten::cumsum_",
        "aten::relu_",
        "aten::neg_",
        "aten::exp_",
        "aten::sqrt_",
        "aten::tanh_",
        "aten::sigmoid_",
    }
)
"""Ops that read every element of what they write; others, such as ``index_put_``, may leave elements unread."""

_SCALED = frozenset({"aten::addmm", "aten::addmv", "aten::addr", "aten::addbmm", "aten::baddbmm"})
"""Ops that ignore their first argument, NaN and all, where ``beta`` is 0.

Source: https://docs.pytorch.org/docs/stable/generated/torch.baddbmm.html
"""

_UNSAID_WRITES = {
    "aten::native_batch_norm": (3, 4),
    "aten::cudnn_batch_norm": (3, 4),
    "aten::miopen_batch_norm": (3, 4),
}
"""Arguments that an op writes without its schema saying so: running statistics, in training.

Source: https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/native_functions.yaml
"""

_TRAINING = 5
"""Position of ``training`` in these three."""

_SIDE_OUTPUTS = {
    "aten::_cudnn_rnn": (3, 4),
    "aten::cudnn_batch_norm": (3,),
    "aten::_batch_norm_with_update": (3,),
    "aten::mkldnn_rnn_layer": (3,),
    "aten::_scaled_dot_product_flash_attention": (6, 7, 8),
    "aten::_scaled_dot_product_efficient_attention": (2, 3),
    "aten::_scaled_dot_product_cudnn_attention": (6, 7, 8),
    "aten::_flash_attention_forward": (2, 3, 4),
    "aten::_efficient_attention_forward": (2, 3),
    "aten::_cudnn_attention_forward": (6, 7, 8),
}
"""Outputs that are workspace, or debugging aids, and need not have been written."""

_IN_FLIGHT = ("c10d::", "_c10d_functional::", "c10d_functional::")
"""Namespaces of collectives: their results are under way when the op returns."""


@dataclass(frozen=True, slots=True)
class Op:
    """What is known of an op before it runs."""

    name: str
    call: Callable[..., Any]
    """Executes it, without what an `OpOverload` does for tracing compilers."""
    written: frozenset[int | str]
    """Positions, and names of keyword arguments, that the schema marks as written."""
    unsaid: tuple[int, ...]
    is_view: bool
    """Whether it only looks at memory in another way: it reads nothing."""
    allocates: bool
    overwrites: bool
    reads_all: bool
    is_scaled: bool
    gives: bool
    """Whether it returns anything but what it has written."""
    reads_only: bool
    """Whether all that it does with its arguments is to read them."""
    draws: bool
    is_bookkeeping: bool
    """Whether it computes nothing: marks for profilers."""
    in_flight: bool
    side_outputs: tuple[int, ...]


def describe(func: Any) -> Op:
    """Reads the schema of an `OpOverload`."""
    schema = func._schema
    name = schema.name
    written: set[int | str] = set()
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            written.add(argument.name if argument.kwarg_only else position)
    aliased = any(value.alias_info is not None for value in schema.returns)
    # `torch.tensor` and the like come in by `lift_fresh`: it is where a value from Python is first seen.
    is_view = (aliased and not written and name != "aten::lift_fresh") or name in _REFERRING
    if is_view:
        written.clear()
    unsaid, is_scaled = _UNSAID_WRITES.get(name, ()), name in _SCALED
    return Op(
        name=str(func),
        call=getattr(func, "_op", func),
        written=frozenset(written),
        unsaid=unsaid,
        is_view=is_view,
        allocates=name in _ALLOCATING,
        overwrites=name in _OVERWRITING or any(isinstance(key, str) for key in written),
        reads_all=name in _ADDING or name.startswith("aten::_foreach_"),
        is_scaled=is_scaled,
        gives=any(value.alias_info is None or not value.alias_info.is_write for value in schema.returns),
        reads_only=not (written or unsaid or is_view or is_scaled),
        is_bookkeeping=name.startswith("profiler::"),
        draws=torch.Tag.nondeterministic_seeded in func.tags,
        in_flight=name.startswith(_IN_FLIGHT),
        side_outputs=_SIDE_OUTPUTS.get(name, ()),
    )


def is_training(arguments: tuple[Any, ...]) -> bool:
    """Whether a batch norm updates its running statistics."""
    return len(arguments) > _TRAINING and bool(arguments[_TRAINING])
