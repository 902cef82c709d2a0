import os

import pytest
import torch

from repro_audit.worker.memory import FILLS, fill_new_memory


def in_child(action) -> int:
    """The exit code of a fork, so that this process keeps its memory as it is."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = action()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("elements", [2**14, 2**22])
@pytest.mark.parametrize("byte", FILLS)
def test_new_tensors_hold_the_byte_from_the_heap_or_from_the_system(byte, elements):
    def action() -> int:
        assert fill_new_memory(byte)
        # The allocator may write its own links into what it frees; a run of bytes in the middle is nobody's.
        found = torch.empty(elements, dtype=torch.uint8)[elements // 2 : elements // 2 + 16]
        return 0 if found.tolist() == [byte] * 16 else 1

    assert in_child(action) == 0


def test_zeros_stay_zeros():
    def action() -> int:
        fill_new_memory(FILLS[0])
        return int(torch.zeros(4096).sum().item() != 0)

    assert in_child(action) == 0
