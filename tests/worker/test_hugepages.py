import ctypes
import sys

import pytest

from repro_audit.worker import hugepages


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_contents_and_addresses_stay_as_they_are():
    block = ctypes.create_string_buffer(bytes(range(256)) * (32 << 10))
    address, content = ctypes.addressof(block), block.raw
    assert hugepages.collapse_private_memory() >= 0
    assert ctypes.addressof(block) == address
    assert block.raw == content


def test_elsewhere_nothing_happens(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert hugepages.collapse_private_memory() == 0
