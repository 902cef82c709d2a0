import subprocess
import sys

import pytest

HARNESS = """
import sys
import numpy
from repro_audit.worker.alignment import BOUNDARY_BYTES, align_arrays
before = numpy.arange(1000)
offset = int(sys.argv[1])
align_arrays(offset)
def offset_of(array): return array.ctypes.data % BOUNDARY_BYTES
many = [numpy.ones(size) for size in (1, 7, 100, 10_000, 1_000_000)]
assert {offset_of(array) for array in many} == {offset}
assert offset_of(numpy.zeros((30, 40), numpy.int8)) == offset
assert not numpy.zeros(100_000).any()
grown = numpy.arange(50)
grown.resize(5000, refcheck=False)
assert offset_of(grown) == offset and (grown[:50] == range(50)).all() and not grown[50:].any()
grown.resize(3, refcheck=False)
assert offset_of(grown) == offset and grown.tolist() == [0, 1, 2]
assert numpy.fromiter(range(1000), int).sum() == 499_500
assert before.sum() == 499_500
del many, grown, before
print("done")
"""


@pytest.mark.parametrize("offset", [0, 8, 16, 48])
def test_every_array_lies_where_it_is_to_lie_and_holds_what_it_should(offset):
    done = subprocess.run([sys.executable, "-c", HARNESS, str(offset)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


def test_without_numpy_there_is_nothing_to_place():
    code = "from repro_audit.worker.alignment import align_arrays; align_arrays(8)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "NumPy was not imported" in done.stderr
