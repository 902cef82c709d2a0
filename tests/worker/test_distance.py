import math
import struct
import warnings

import numpy
import pytest
import torch

from repro_audit.worker import distance as distance_module
from repro_audit.worker.distance import measure

FLOATS = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
    torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
]  # fmt: skip
CARRIERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def far(first, second):
    distance = measure(first, second)
    assert distance is not None
    return distance.max_absolute, distance.max_ulp


def float64(bits):
    return torch.tensor([bits], dtype=torch.int64).view(torch.float64)


@pytest.fixture(autouse=True, scope="module")
def strict_mode():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def test_one_element_off_by_one_place_is_told_exactly():
    first = torch.ones(2, 3)
    second = first.clone()
    second[1, 2] = torch.nextafter(second[1, 2], torch.tensor(2.0))
    distance = measure(first, second)
    assert (distance.dtype, distance.shape, distance.elements, distance.differing) == ("float32", (2, 3), 6, 1)
    assert (distance.max_absolute, distance.max_ulp) == ("1.1920928955078125e-07", "1")
    assert distance.first_index == (1, 2)
    assert distance.first_value == "1 (0x3f800000)"
    assert distance.second_value == "1.0000001 (0x3f800001)"


def test_equal_bits_are_no_difference():
    values = torch.tensor([math.nan, -0.0, math.inf])
    distance = measure(values, values.clone())
    assert (distance.differing, distance.max_absolute, distance.max_ulp) == (0, None, None)
    assert (distance.first_index, distance.first_value) == ((), "")
    assert (
        measure(3, 3).differing == measure(0.5, 0.5).differing == measure(torch.zeros(0), torch.zeros(0)).differing == 0
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_neighbours_are_one_place_apart_in_every_float_dtype(dtype):
    carrier = CARRIERS[dtype.itemsize]
    one = torch.tensor([1.0], dtype=torch.float64).to(dtype)
    after = (one.view(carrier) + 3).view(dtype)
    assert far(one, after)[1] == far(after, one)[1] == "3"
    assert float(far(one, after)[0]) == float(after.to(torch.float64) - 1)


def test_every_pair_of_float16_is_as_many_places_apart_as_there_are_numbers_between():
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    numbers = bits.view(torch.float16)
    finite = numbers[numbers.isfinite()]
    ordered = finite[torch.argsort(finite.to(torch.float64), stable=True)]
    # The two zeros compare equal; 64511 steps lie between -65504 and 65504 if each has a place.
    assert far(ordered[:1], ordered[-1:]) == ("131008", str(len(ordered) - 1))


def test_the_zeros_differ_by_one_place_and_nothing():
    assert far(torch.tensor([0.0]), torch.tensor([-0.0])) == ("0", "1")
    assert far(0.0, -0.0) == ("0", "1")


def test_distances_at_the_ends_of_64_bits_do_not_overflow():
    largest = torch.finfo(torch.float64).max
    assert far(torch.tensor(largest, dtype=torch.float64), torch.tensor(-largest, dtype=torch.float64)) == (
        "3.5953862697246314e+308",
        str(2 * 0x7FEFFFFFFFFFFFFF + 1),
    )
    low, high = -(2**63), 2**63 - 1
    assert far(torch.tensor([low, 5]), torch.tensor([high, 5])) == (str(2**64 - 1), None)
    unsigned = torch.tensor([0, -1], dtype=torch.int64).view(torch.uint64)
    assert far(unsigned, torch.tensor([-1, 0]).view(torch.uint64)) == (str(2**64 - 1), None)
    assert far(10**30, -1) == (str(10**30 + 1), None)


def test_pairs_that_are_not_finite_have_no_distance_but_differ():
    first = torch.tensor([math.nan, math.inf, 1.0, 5.0])
    distance = measure(first, torch.tensor([0.0, -math.inf, 1.0, 5.0]))
    assert (distance.differing, distance.max_absolute, distance.max_ulp) == (2, None, None)
    distance = measure(first, torch.tensor([0.0, -math.inf, 1.5, 5.0]))
    assert (distance.differing, distance.max_absolute) == (3, "0.5")
    assert distance.first_value == "nan (0x7fc00000)"
    payloads = torch.tensor([0x7FC00000, 0x7FC00001], dtype=torch.int32).view(torch.float32)
    assert measure(payloads[:1], payloads[1:]).differing == 1


@pytest.mark.parametrize("dtype", [torch.complex32, torch.complex64, torch.complex128], ids=str)
def test_complex_numbers_count_as_elements_and_their_parts_as_numbers(dtype):
    first = torch.view_as_complex(torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=dtype.to_real()))
    second = torch.view_as_complex(torch.tensor([[1.0, 2.0], [3.0, 4.5]], dtype=dtype.to_real()))
    distance = measure(first, second)
    assert (distance.differing, distance.first_index, distance.max_absolute) == (1, (1,), "0.5")
    assert distance.max_ulp == str(
        2 ** (torch.finfo(dtype.to_real()).bits - 4 - {16: 5, 32: 8, 64: 11}[torch.finfo(dtype.to_real()).bits])
    )
    assert distance.first_value.startswith("3 (0x")
    assert " + i * 4 (0x" in distance.first_value
    assert measure(first.conj(), first).max_absolute == "8"


@pytest.mark.parametrize(
    ("dtype", "first", "second", "absolute"),
    [
        (torch.bool, 0, 1, "1"),
        (torch.uint8, 0, 255, "255"),
        (torch.int8, -128, 127, "255"),
        (torch.uint16, 0, 65535, "65535"),
        (torch.int16, -32768, 32767, "65535"),
        (torch.uint32, 0, 2**32 - 1, str(2**32 - 1)),
        (torch.int32, -(2**31), 2**31 - 1, str(2**32 - 1)),
    ],
)
def test_integers_have_an_absolute_difference_and_no_places(dtype, first, second, absolute):
    one, other = torch.tensor([first], dtype=dtype), torch.tensor([second], dtype=dtype)
    assert far(one, other) == far(other, one) == (absolute, None)
    assert measure(one, other).first_value == str(first if dtype != torch.bool else bool(first))


def test_sub_byte_integers_are_numbers_and_opaque_bits_are_not():
    content = torch.tensor([1, 255], dtype=torch.uint8)
    assert far(content[:1].view(torch.uint3), content[1:].view(torch.uint3)) == ("254", None)
    assert far(content[:1].view(torch.int3), content[1:].view(torch.int3)) == ("2", None)
    for dtype in (torch.bits8, torch.float4_e2m1fn_x2):
        distance = measure(content[:1].view(dtype), content[1:].view(dtype))
        assert (distance.differing, distance.max_absolute, distance.max_ulp) == (1, None, None)
        assert (distance.first_value, distance.second_value) == ("0x01", "0xff")


def test_numbers_of_python_and_numpy_are_measured():
    assert far(1.0, 1.5) == ("0.5", str(2**51))
    assert far(1j, 2j)[0] == "1"
    assert far(True, False) == ("1", None)
    assert measure(True, False).first_value == "True"
    assert far(numpy.float32(1.0), numpy.float32(2.0)) == ("1", str(2**23))
    assert far(numpy.arange(3), numpy.arange(3)[::-1]) == ("2", None)
    assert far(numpy.ones(2, ">f8"), numpy.zeros(2, ">f8"))[0] == "1"
    read_only = numpy.broadcast_to(numpy.float64(1), (2,))
    assert measure(read_only, read_only).differing == 0
    assert measure(10**5000, 1).first_value.startswith("0x")
    nan, other_nan = (
        struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in (0x7FF8000000000000, 0x7FF8000000000001)
    )
    assert measure(nan, other_nan).differing == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (torch.ones(2), torch.ones(3)),
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        (torch.ones(2), torch.ones(2).to_sparse()),
        (torch.ones(1), 1.0),
        (1, 1.0),
        (True, 1),
        ("a", "b"),
        (None, None),
        (b"a", b"b"),
        (numpy.array(["a"]), numpy.array(["b"])),
        (numpy.ones(2), numpy.ones(2, "f4")),
        (torch.ones(1, device="meta"), torch.ones(1, device="meta")),
    ],
)
def test_what_cannot_be_compared_has_no_distance(first, second):
    assert measure(first, second) is None


def test_large_and_permuted_tensors_are_measured_in_chunks(monkeypatch):
    monkeypatch.setattr(distance_module, "CHUNK_ELEMENTS", 7)
    first = torch.zeros(4, 5, 6)
    second = first.clone()
    second[2, 1, 3] = 1.0
    second[3, 0, 0] = -8.0
    distance = measure(first.permute(2, 0, 1), second.permute(2, 0, 1))
    assert (distance.differing, distance.elements, distance.max_absolute) == (2, 120, "8")
    assert distance.shape == (6, 4, 5)
    assert distance.first_index == (0, 3, 0)
    assert distance.second_value == "-8 (0xc1000000)"
    assert measure(first.permute(2, 0, 1), second.permute(2, 0, 1).contiguous()) == distance


def test_a_sparse_tensor_is_measured_by_its_values():
    def sparse(values, column=1):
        return torch.sparse_coo_tensor([[0, 1], [column, 2]], values, (3, 4), check_invariants=True)

    distance = measure(sparse([1.0, 2.0]), sparse([1.0, 4.0]))
    assert (distance.shape, distance.differing, distance.max_absolute, distance.first_index) == ((2,), 1, "2", (1,))
    assert measure(sparse([1.0, 2.0]), sparse([3.0, 4.0], column=0)) is None
    assert measure(sparse([1.0, 2.0]), sparse([1.0, 2.0])).differing == 0


def test_a_quantized_tensor_is_measured_by_its_integers():
    with warnings.catch_warnings(action="ignore"):
        first, second = (torch.quantize_per_tensor(torch.tensor([0.0, x]), 0.5, 0, torch.quint8) for x in (1.0, 3.0))
    distance = measure(first, second)
    assert (distance.dtype, distance.differing, distance.max_absolute, distance.max_ulp) == ("quint8", 1, "4", None)


def test_tensors_that_require_a_gradient_are_measured_without_a_graph():
    first = torch.nn.Parameter(torch.ones(2))
    assert measure(first, (first * 2)).max_absolute == "1"
    assert first.grad is None
