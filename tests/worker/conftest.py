"""Leaves PyTorch's process-wide settings as a test found them."""

import pytest
import torch

from repro_audit.worker.determinism import arm


@pytest.fixture
def arming():
    """`arm`, whose effect ends with the test."""
    algorithms = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    fill = torch.utils.deterministic.fill_uninitialized_memory
    cudnn = torch.backends.cudnn.enabled, torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
    warn_always = torch.is_warn_always_enabled()
    yield arm
    torch.use_deterministic_algorithms(algorithms[0], warn_only=algorithms[1])
    torch.utils.deterministic.fill_uninitialized_memory = fill
    torch.backends.cudnn.enabled, torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = cudnn
    torch.set_warn_always(warn_always)
