"""Which alerts PyTorch can raise at all: what a green column does not show."""

ALERTS_READ_IN = "2.13.0"
"""The release whose libraries were read for call sites of `alertNotDeterministic`; 2.14.1 has the same."""

CPU_ALERTS = ("put_ without accumulate", "MaxUnpool1d, 2d and 3d", "resize_ of a quantized tensor")
"""All that strict mode can refuse on a CPU.

Source: https://github.com/pytorch/pytorch/tree/v2.13.0/aten/src/ATen/native, callers of `alertNotDeterministic`.
"""

CPU_ALERT_SITES = 4
CUDA_ALERT_SITES = 39


def cpu_column_note() -> str:
    """How little a green CPU column shows."""
    return (
        f"What a green CPU column does not show: on a CPU strict mode can refuse only {'; '.join(CPU_ALERTS)} "
        f"({CPU_ALERT_SITES} call sites in PyTorch {ALERTS_READ_IN}, against {CUDA_ALERT_SITES} for CUDA). "
        "It says nothing about CUDA."
    )


REROUTED = frozenset({"Flash Attention", "Memory Efficient attention", "cuDNN Attention"})
"""Ops that only warn_only complains about: strict mode lets them choose a deterministic kernel instead.

Source: https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/transformers/cuda/attention_backward.cu
"""
