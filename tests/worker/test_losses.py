import math
import struct

import numpy
import pytest
import torch

from repro_audit.worker.losses import LossError, read_loss


@pytest.mark.parametrize(
    ("value", "text", "dtype", "bits"),
    [
        (torch.tensor(0.1), "0.1", "float32", "0x3dcccccd"),
        (torch.tensor([[0.1]]), "0.1", "float32", "0x3dcccccd"),
        (torch.tensor(0.1, dtype=torch.float64), "0.1", "float64", "0x3fb999999999999a"),
        (torch.tensor(1.5, dtype=torch.bfloat16), "1.5", "bfloat16", "0x3fc0"),
        (torch.tensor(-0.0), "-0", "float32", "0x80000000"),
        (torch.tensor(3), "3", "int64", "0x0000000000000003"),
        (numpy.float32(0.1), "0.1", "float32", "0x3dcccccd"),
        (numpy.float64(0.1), "0.1", "float64", "0x3fb999999999999a"),
        (numpy.int64(3), "3", "int64", "0x0000000000000003"),
        (0.1, "0.1", "float", "0x3fb999999999999a"),
        (7, "7", "int", "0x0000000000000007"),
        (-1, "-1", "int", "0xffffffffffffffff"),
        (2**80, str(2**80), "int", "0x0100000000000000000000"),
    ],
)
def test_a_loss_is_kept_as_text_and_bits(value, text, dtype, bits):
    loss, _ = read_loss(value)
    assert (loss.text, loss.dtype, loss.bits, loss.finite) == (text, dtype, bits, True)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("wrap", [float, torch.tensor])
def test_a_loss_that_is_not_finite_says_so(number, wrap):
    loss, _ = read_loss(wrap(number))
    assert not loss.finite
    assert loss.text == repr(number)


def test_the_text_reads_back_as_the_same_float32():
    generator = torch.Generator().manual_seed(0)
    for value in torch.randn(200, generator=generator):
        loss, _ = read_loss(value)
        assert struct.pack("<f", float(loss.text)) == struct.pack("<f", value.item())


def test_a_loss_keeps_no_graph_alive():
    weight = torch.ones(1, requires_grad=True)
    _, leaf = read_loss((weight * 2).sum())
    assert isinstance(leaf, torch.Tensor)
    assert not leaf.requires_grad


@pytest.mark.parametrize(
    "value",
    [None, "0.5", True, 1j, [0.5], torch.zeros(2), torch.zeros(0), torch.tensor(True), torch.tensor(1j)],
)
def test_what_is_no_loss_is_an_error_that_says_what_came(value):
    with pytest.raises(LossError, match=r"step\(\) returned"):
        read_loss(value)
