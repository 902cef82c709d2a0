import subprocess
import sys

import pytest

from repro_audit.worker.personality import addresses_are_fixed, hold_addresses

SHOW = (
    "import ctypes; from repro_audit.worker.personality import addresses_are_fixed; "
    "print(addresses_are_fixed(), ctypes.cast(ctypes.CDLL(None).malloc, ctypes.c_void_p).value)"
)

HOLD = (
    "import os, sys; from repro_audit.worker.personality import hold_addresses; held = hold_addresses(); "
    f"os.execv(sys.executable, [sys.executable, '-c', {SHOW!r}]) if held else print('denied')"
)


def shown(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(sys.platform != "linux", reason="Linux lays programs out at random, and can be told not to")
def test_a_program_is_laid_out_alike_where_addresses_are_held_and_otherwise_where_not():
    held = {shown(HOLD) for _ in range(3)}
    if held == {"denied\n"}:
        pytest.skip("this system does not let addresses be held")
    assert len(held) == 1
    assert held.pop().startswith("True ")
    if not addresses_are_fixed():
        free = {shown(SHOW) for _ in range(3)}
        assert len(free) > 1
        assert all(line.startswith("False ") for line in free)


def test_elsewhere_nothing_is_held(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not hold_addresses()
    assert not addresses_are_fixed()
