import enum
import hashlib
import itertools
import math
import pathlib
import re
import struct
import threading
import warnings

import numpy
import pytest
import torch

from repro_audit.digests import state_digest
from repro_audit.records import Role
from repro_audit.worker import digest as digest_module
from repro_audit.worker.bits import CHUNK_BYTES, buffers, pieces
from repro_audit.worker.digest import digest_leaf, digest_leaves
from repro_audit.worker.leaves import Leaf, LeafError, named_leaves

DTYPES = sorted({value for value in vars(torch).values() if isinstance(value, torch.dtype)}, key=str)
QUANTIZED = [torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4]
STRIDED = [dtype for dtype in DTYPES if dtype not in QUANTIZED]
BITS_OF_NAN = [0x7FC00000, 0x7FC00001, -0x400000]


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Shade(enum.Enum):
    RED = 1


@pytest.fixture(autouse=True, scope="module")
def strict_mode():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def quantized(scale=0.5, dtype=torch.quint8, per_channel=False):
    values = torch.arange(8.0).reshape(2, 4)
    with warnings.catch_warnings(action="ignore"):
        if per_channel:
            return torch.quantize_per_channel(values, torch.tensor([scale, 1.0]), torch.tensor([0, 1]), 0, dtype)
        return torch.quantize_per_tensor(values, scale, 2, dtype)


def sparse(values, indices=((0, 1), (1, 2)), coalesced=False):
    return torch.sparse_coo_tensor(indices, values, (3, 4), is_coalesced=coalesced, check_invariants=True)


def compressed(layout):
    with warnings.catch_warnings(action="ignore"):
        return torch.eye(4).to_sparse(layout=layout, blocksize=(2, 2) if "bs" in str(layout) else None)


def nested(layout, *sizes):
    with warnings.catch_warnings(action="ignore"):
        return torch.nested.nested_tensor([torch.arange(float(size)) for size in sizes], layout=layout)


def all_different(*values):
    digests = [digest_leaf(value) for value in values]
    return len(set(digests)) == len(digests)


# ------------------------------------------------------------------------------------------- definition


def test_the_recomputation_in_the_documentation_gives_the_same_digest():
    page = (pathlib.Path(__file__).parents[2] / "docs" / "digest.md").read_text()
    (snippet,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    namespace = {}
    exec(snippet, namespace)
    assert "torch" not in snippet
    rows = [[1.5, -0.0, math.nan], [1e-45, math.inf, 2.0]]
    assert namespace["float32_digest"](rows) == digest_leaf(torch.tensor(rows))
    assert namespace["float32_digest"](rows) == digest_leaf(torch.nn.Parameter(torch.tensor(rows).t().contiguous().t()))


def test_a_pinned_digest_never_changes():
    assert digest_leaf(torch.arange(3)) == expected(b"tensor\nint64\nstrided\n3\n", struct.pack("<3q", 0, 1, 2))
    assert digest_leaf(torch.tensor(True)) == expected(b"tensor\nbool\nstrided\n\n", b"\x01")
    assert digest_leaf(-255) == expected(b"int\n", b"-ff")
    assert digest_leaf(1.0) == expected(b"float\n", b"\0\0\0\0\0\0\xf0?")
    assert digest_leaf(numpy.zeros((1, 2), ">f2")) == expected(b"numpy.array\n<f2\n1,2\n", bytes(4))
    indices, values = torch.tensor([[0, 1], [1, 2]]), torch.ones(2)
    lines = "".join(f"{name}\0{digest_leaf(part)}\n" for name, part in
                    {"coalesced": False, "indices": indices, "values": values}.items())  # fmt: skip
    assert digest_leaf(sparse([1.0, 1.0])) == expected(b"sparse\nfloat32\nsparse_coo\n3,4\n", lines.encode())
    golden = "sha256:526793a6d6570086c380d17219cb08e6fa4880bd29131be67ea87c544b6bf347"
    assert digest_leaf(torch.arange(6.0).reshape(2, 3)) == golden


def expected(header, content):
    return "sha256:" + hashlib.sha256(b"repro-audit leaf 1\n" + header + content).hexdigest()


def test_the_state_digest_is_as_documented():
    leaves = {"b": digest_leaf(1), "a/é": digest_leaf(2)}
    text = f"a/é\0{leaves['a/é']}\nb\0{leaves['b']}\n"
    assert state_digest(leaves) == "sha256:" + hashlib.sha256(text.encode()).hexdigest()


# ------------------------------------------------------------------------------------------- dtypes and layouts


@pytest.mark.parametrize("dtype", STRIDED, ids=str)
def test_every_dtype_is_digested_by_its_bytes_however_it_lies_in_memory(dtype):
    size = dtype.itemsize
    content = bytes(range(1, 1 + 6 * size)) if dtype != torch.bool else bytes([0, 1, 1, 0, 1, 0])
    tensor = torch.frombuffer(bytearray(content), dtype=torch.uint8).view(dtype).reshape(2, 3)
    name = str(dtype).removeprefix("torch.").encode()
    assert digest_leaf(tensor) == expected(b"tensor\n" + name + b"\nstrided\n2,3\n", content)
    columns = b"".join(content[(3 * row + column) * size :][:size] for column in range(3) for row in range(2))
    assert digest_leaf(tensor.t()) == expected(b"tensor\n" + name + b"\nstrided\n3,2\n", columns)
    assert digest_leaf(tensor[1, 2]) == expected(b"tensor\n" + name + b"\nstrided\n\n", content[-size:])
    assert digest_leaf(tensor[:0]) == expected(b"tensor\n" + name + b"\nstrided\n0,3\n", b"")
    every_second = content[:size] + content[2 * size : 3 * size]
    assert digest_leaf(tensor[0, ::2]) == expected(b"tensor\n" + name + b"\nstrided\n2\n", every_second)
    assert digest_leaf(tensor[0, :1].expand(2)) == expected(b"tensor\n" + name + b"\nstrided\n2\n", content[:size] * 2)


def test_every_dtype_of_this_pytorch_is_covered():
    assert set(DTYPES) == set(STRIDED) | set(QUANTIZED)
    assert {torch.bfloat16, torch.float8_e8m0fnu, torch.float4_e2m1fn_x2, torch.complex32, torch.uint3} < set(STRIDED)


@pytest.mark.parametrize("dtype", [torch.complex32, torch.complex64, torch.complex128], ids=str)
def test_conjugate_and_negative_views_give_what_reading_them_gives(dtype):
    content = bytearray(struct.pack("<8e", 1, -2, 0, 0, math.nan, math.nan, math.inf, -0.0))
    parts = torch.frombuffer(content, dtype=torch.float16).to(dtype.to_real()).reshape(4, 2)
    tensor = torch.view_as_complex(parts)
    conjugate = torch.view_as_complex(torch.stack([parts[:, 0], -parts[:, 1]], dim=1))
    assert tensor.conj().is_conj()
    assert digest_leaf(tensor.conj()) == digest_leaf(conjugate) != digest_leaf(tensor)
    assert digest_leaf(tensor.conj()[::2]) == digest_leaf(conjugate[::2])
    assert tensor.conj().imag.is_neg()
    assert digest_leaf(tensor.conj().imag) == digest_leaf(-(tensor.imag))
    assert digest_leaf(tensor.conj().imag.reshape(2, 2).t()) == digest_leaf((-(tensor.imag)).reshape(2, 2).t())


def test_shape_dtype_order_sign_of_zero_and_nan_payload_all_count():
    assert all_different(torch.arange(6), torch.arange(6).reshape(2, 3), torch.arange(6).reshape(3, 2))
    assert all_different(*(torch.tensor(order) for order in itertools.permutations([1.0, 2.0, 3.0])))
    assert all_different(*(torch.zeros(2, dtype=dtype) for dtype in (torch.float32, torch.int32, torch.uint32)))
    assert all_different(torch.tensor([0.0]), torch.tensor([-0.0]), torch.tensor(0.0), torch.zeros(0))
    assert all_different(torch.zeros(0), torch.zeros(0, 3), torch.zeros(3, 0))
    assert all_different(*(torch.tensor([bits], dtype=torch.int32).view(torch.float32) for bits in BITS_OF_NAN))
    one = torch.ones(1)
    assert all_different(one, torch.nextafter(one, torch.tensor(2.0)))


def test_nan_equals_the_same_nan():
    assert digest_leaf(torch.tensor([math.nan])) == digest_leaf(torch.tensor([math.nan]))
    assert digest_leaf(math.nan) == digest_leaf(float("nan"))


def test_where_a_tensor_lies_and_what_autograd_knows_of_it_do_not_count():
    tensor = torch.arange(24.0).reshape(2, 3, 4)
    alike = [
        tensor.clone(),
        tensor.clone().requires_grad_(),
        torch.nn.Parameter(tensor.clone()),
        torch.cat([torch.zeros(5), tensor.reshape(-1)])[5:].reshape(2, 3, 4),
        tensor.permute(2, 0, 1).contiguous().permute(1, 2, 0),
        tensor.requires_grad_() * 1,
        torch.inference_mode()(lambda: tensor + 0)(),
    ]
    assert {digest_leaf(other) for other in alike} == {digest_leaf(tensor)}


def test_sparse_tensors_are_digested_as_stored():
    tensor = sparse([1.0, 2.0])
    assert digest_leaf(tensor) == digest_leaf(sparse([1.0, 2.0]).requires_grad_())
    assert all_different(
        tensor,
        tensor.to_dense(),
        sparse([1.0, 2.0], coalesced=True),
        sparse([2.0, 1.0]),
        sparse([1.0, 2.0], indices=((0, 1), (1, 3))),
        sparse([-0.0, 2.0]),
        sparse([0.0, 2.0]),
    )
    layouts = [torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc, torch.sparse_coo]
    assert all_different(*(compressed(layout) for layout in layouts))
    assert digest_leaf(compressed(torch.sparse_csr)) == digest_leaf(compressed(torch.sparse_csr))


def test_quantized_tensors_count_values_scale_and_scheme():
    variants = [quantized(), quantized(0.25), quantized(per_channel=True), quantized(0.25, per_channel=True)]
    variants += [quantized(dtype=dtype) for dtype in QUANTIZED[1:]]
    assert all_different(*variants, quantized().int_repr(), quantized().t(), quantized().flip(0))
    assert digest_leaf(quantized()) == digest_leaf(quantized())
    assert digest_leaf(quantized().t()) == digest_leaf(quantized().t().contiguous())
    # Before 2.10, PyTorch itself does not transpose these.
    with pytest.raises((LeafError, RuntimeError), match=r"packed and not contiguous; return|out of bounds"):
        digest_leaf(quantized(dtype=torch.quint4x2).t())


def test_mkldnn_and_nested_tensors_have_digests():
    assert (
        digest_leaf(torch.ones(2).to_mkldnn()) == digest_leaf(torch.ones(2).to_mkldnn()) != digest_leaf(torch.ones(2))
    )
    for layout in (torch.strided, torch.jagged):
        assert digest_leaf(nested(layout, 3, 2)) == digest_leaf(nested(layout, 3, 2))
        assert all_different(nested(layout, 3, 2), nested(layout, 2, 3), nested(layout, 3, 2, 0))
    assert all_different(nested(torch.strided, 3, 2), nested(torch.jagged, 3, 2))


class Pair(torch.Tensor):
    """A wrapper subclass: two tensors that pose as their sum."""

    @staticmethod
    def __new__(cls, first, second, note):
        return torch.Tensor._make_wrapper_subclass(cls, first.shape, dtype=first.dtype)

    def __init__(self, first, second, note):
        self.first, self.second, self.note = first, second, note

    def __tensor_flatten__(self):
        return ["first", "second"], {"note": self.note}

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise NotImplementedError(function)


class Opaque(Pair):
    __tensor_flatten__ = property()


class Renamed(torch.Tensor):
    """A plain subclass whose operators lie."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        raise AssertionError("the digest must not ask")


def test_wrapper_subclasses_count_class_context_and_inner_tensors():
    one, two = torch.ones(2), torch.zeros(2)
    assert digest_leaf(Pair(one, two, "a")) == digest_leaf(Pair(one.clone(), two.clone(), "a"))
    assert all_different(Pair(one, two, "a"), Pair(two, one, "a"), Pair(one, two, "b"), one)
    with pytest.raises(LeafError, match=r"leaf 'value/context/note' of type object|leaf 'value<context/note>'"):
        digest_leaf(Pair(one, two, object()))


def test_a_subclass_that_only_overrides_functions_is_its_data():
    assert digest_leaf(torch.ones(2).as_subclass(Renamed)) == digest_leaf(torch.ones(2))


# ------------------------------------------------------------------------------------------- other leaves


def test_every_kind_of_plain_leaf_has_a_digest_of_its_own():
    values = [
        None, True, False, 0, 1, -1, 2**64, -(10**5000), 0.0, -0.0, 1.0, math.inf, math.nan, 0j, complex(-0.0, 0.0), 1j,
        "", "1", "True", "\ud800", b"", b"1", bytearray(b"1"), Color.RED, Color.BLUE, Shade.RED,
        torch.float32, torch.float64, torch.device("cpu"), torch.device("cuda:1"), torch.strided, torch.channels_last,
        numpy.float64(1.0), numpy.float32(1.0), numpy.array(1.0), numpy.array([1.0]), numpy.array([[1.0]]),
        numpy.array([1]), numpy.array([True]), numpy.str_("1"), numpy.bytes_(b"1"), numpy.array(["1"]),
        numpy.datetime64("2020-01-01"), numpy.array([-0.0]), numpy.array([0.0]), numpy.zeros(0), numpy.zeros((0, 2)),
        numpy.complex64(1), numpy.bool_(True), numpy.float16(1), torch.tensor(1.0), torch.tensor([1.0]),
    ]  # fmt: skip
    assert all_different(*values)
    assert [digest_leaf(value) for value in values] == [digest_leaf(value) for value in values]


def test_a_numpy_array_is_its_elements_whatever_their_order_in_memory():
    array = numpy.arange(6, dtype="<f4").reshape(2, 3)
    alike = [array.astype(">f4"), numpy.asfortranarray(array), array[:, ::-1].copy()[:, ::-1], array.copy()]
    assert {digest_leaf(other) for other in alike} == {digest_leaf(array)}
    payload = numpy.array([0x7FF0000000000001], dtype="<u8").view("<f8")
    assert digest_leaf(payload) == digest_leaf(payload.astype(">f8"))
    assert digest_leaf(payload) != digest_leaf(numpy.array([math.nan]))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (object(), "of type object has no digest; return tensors"),
        (len, "has no digest"),
        (int, "of type type has no digest"),
        (numpy.array([object()]), "has the dtype object; convert it"),
        (numpy.zeros(1, dtype=[("a", "i4")]), "convert it to one of plain numbers"),
        (numpy.longdouble(1), "convert it to one of plain numbers"),
        (numpy.ma.array([1]), "may hold more than its elements"),
        (torch.ones(2, device="meta"), "is on the meta device"),
        (Opaque(torch.ones(1), torch.ones(1), ""), "hides its data"),
    ],
)
def test_anything_else_is_an_error_that_names_the_leaf(value, problem):
    with pytest.raises(LeafError, match=re.escape(problem)) as caught:
        digest_leaves({"model/x": Leaf(Role.VALUE, value)})
    assert str(caught.value).startswith("leaf 'model/x' of type ")


def test_a_freed_storage_is_an_error_and_not_a_crash():
    for tensor in (torch.ones(4), torch.ones(4, 4).t()):
        tensor.untyped_storage().resize_(0)
        with pytest.raises(LeafError, match="has less storage than its shape needs"):
            digest_leaf(tensor)


def test_a_tensor_of_a_running_transform_is_an_error():
    def digested(tensor):
        with pytest.raises(LeafError, match=r"running torch\.func transform"):
            digest_leaf(tensor)
        return tensor

    torch.func.vmap(digested)(torch.ones(2, 2))


# ------------------------------------------------------------------------------------------- side effects, memory


def test_digesting_leaves_no_trace():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    model(torch.randn(4, 3)).sum().backward()
    tensor = torch.randn(300, 2000, requires_grad=True)
    leaves = named_leaves({"model": model, "t": tensor, "view": (tensor * 2).t()})
    versions = {path: leaf.value._version for path, leaf in leaves.items()}
    generator = torch.get_rng_state()
    with warnings.catch_warnings(record=True, action="always") as caught:
        digest_leaves(leaves)
    assert not caught
    assert torch.equal(torch.get_rng_state(), generator)
    assert {path: leaf.value._version for path, leaf in leaves.items()} == versions
    assert torch.is_grad_enabled()
    assert leaves["view"].value.grad_fn is not None
    assert tensor.grad is None


def test_a_large_state_is_digested_by_threads_with_the_same_result_and_none_is_left(monkeypatch):
    monkeypatch.setattr(digest_module, "THREADED_BYTES", 1)
    monkeypatch.setattr(digest_module, "THREADED_LEAF_BYTES", 1)
    monkeypatch.setattr(digest_module, "usable_cores", lambda: 3)
    seen = set()

    def observed(value, path):
        seen.add(threading.current_thread().name.rsplit("_", 1)[0])
        return digest_leaf(value, path)

    monkeypatch.setattr(digest_module, "digest_leaf", observed)
    shared = torch.arange(5000.0)
    leaves = named_leaves({"a": shared, "b": shared, "c": torch.ones(70, 70).t(), "d": 1, "s": sparse([1.0, 2.0])})
    before = threading.active_count()
    digests = digest_leaves(leaves)
    assert threading.active_count() == before
    assert list(digests) == list(leaves)
    assert digests == {path: digest_leaf(leaf.value) for path, leaf in leaves.items()}
    assert seen == {"repro-audit-digest", "MainThread"}


def test_an_error_in_a_thread_names_the_leaf():
    freed = torch.ones(2**20)
    freed.untyped_storage().resize_(0)
    with pytest.raises(LeafError, match="leaf 'freed'"):
        digest_leaves({"x": Leaf(Role.VALUE, torch.ones(2**20)), "freed": Leaf(Role.VALUE, freed)})


def test_a_contiguous_tensor_is_read_in_place_and_others_in_small_pieces():
    tensor = torch.ones(1024, 1025)
    (whole,) = buffers(tensor)
    assert whole.nbytes == tensor.nbytes
    assert whole.readonly
    sizes = [buffer.nbytes for buffer in buffers(tensor.t())]
    assert sum(sizes) == tensor.nbytes
    assert max(sizes) <= CHUNK_BYTES
    assert len(sizes) < 8


@pytest.mark.parametrize("limit", [8, 16, 100, 10_000])
def test_pieces_make_up_the_tensor_in_order(limit):
    tensor = torch.arange(120.0).reshape(5, 6, 4).permute(2, 0, 1)
    cut = list(pieces(tensor, limit))
    assert torch.equal(torch.cat([piece.reshape(-1) for piece in cut]), tensor.reshape(-1))
    assert max(piece.nbytes for piece in cut) <= limit


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_cuda_tensor_has_the_digest_of_its_cpu_copy():
    for dtype in STRIDED:
        content = torch.arange(128, dtype=torch.uint8) % (2 if dtype == torch.bool else 128)
        on_cuda = content.cuda().view(dtype).reshape(-1, 2)
        on_cpu = content.view(dtype).reshape(-1, 2)
        assert digest_leaf(on_cuda) == digest_leaf(on_cpu), dtype
        assert digest_leaf(on_cuda.t()) == digest_leaf(on_cpu.t()), dtype
