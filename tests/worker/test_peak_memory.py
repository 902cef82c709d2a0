import subprocess
import sys

import pytest
import torch

from repro_audit.worker import peak_memory
from repro_audit.worker.peak_memory import PeakMemory

PEAK = """
import sys
import torch
from repro_audit.worker.peak_memory import PeakMemory
torch.ones(2**28).sum()  # before, and larger: 1 GiB
memory = PeakMemory(torch.device("cpu"))
torch.ones(int(sys.argv[1]) * 2**18).sum()
print(memory.read())
"""


def test_the_peak_is_what_was_needed_beyond_the_beginning():
    def peak(mebibytes: int) -> int:
        done = subprocess.run([sys.executable, "-c", PEAK, str(mebibytes)], capture_output=True, text=True, check=True)
        return int(done.stdout)

    small, large = peak(1), peak(200)
    assert 190 * 2**20 <= large - small <= 260 * 2**20


def test_where_the_system_does_not_tell_the_peak_is_0(monkeypatch, tmp_path):
    monkeypatch.setattr(peak_memory, "_STATUS", tmp_path / "absent")
    assert PeakMemory(torch.device("cpu")).read() == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_cuda_it_is_the_memory_of_the_device():
    memory = PeakMemory(torch.device("cuda:0"))
    torch.ones(2**20, device="cuda:0")
    assert 4 * 2**20 <= memory.read() < 8 * 2**20
