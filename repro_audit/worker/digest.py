"""The digest of a leaf: sha256 over what it is and every one of its bits. ``docs/digest.md`` is the definition."""

import contextlib
import enum
import hashlib
import struct
import sys
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import torch

from repro_audit.cores import usable_cores
from repro_audit.digests import ALGORITHM
from repro_audit.worker.bits import buffers, has_data
from repro_audit.worker.leaves import Leaf, LeafError, type_name
from repro_audit.worker.parts import parts_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

VERSION_LINE = b"repro-audit leaf 1\n"
"""First bytes under every leaf digest; the number is raised when the definition changes."""

THREADED_BYTES = 4 * 2**20
"""Below this total a pool of threads costs more than it gains."""

THREADED_LEAF_BYTES = 2**16
"""Smaller leaves are cheaper to digest than to hand to another thread."""


def digest_leaves(leaves: Mapping[str, Leaf]) -> dict[str, str]:
    """Digests every leaf of a state, large tensors on all cores that this process may use.

    No thread outlives the call, since the process may fork later. A value that stands under several paths is
    digested once. Copies are made of what does not lie in C order in CPU memory, 1 MiB at a time and thread;
    quantized, mkldnn and NumPy values that need one are copied whole, one after the other.

    Returns:
        Path to ``sha256:<hex>``, in the order of `leaves`.

    Raises:
        LeafError: A leaf has no digest; the message names it.
    """
    _synchronize(leaves)
    unique = {id(leaf.value): (path, leaf.value) for path, leaf in reversed(list(leaves.items()))}
    sizes = {key: _threaded_size(value) for key, (_, value) in unique.items()}
    large = sorted((key for key, size in sizes.items() if size >= THREADED_LEAF_BYTES), key=lambda key: -sizes[key])
    workers = min(usable_cores(), len(large))
    if workers < 2 or sum(sizes.values()) < THREADED_BYTES:
        digests = {key: digest_leaf(value, path) for key, (path, value) in unique.items()}
    else:
        with ThreadPoolExecutor(workers, thread_name_prefix="repro-audit-digest") as pool:
            futures: dict[int, Future[str]] = {}
            with contextlib.suppress(RuntimeError):  # at exit Python starts no more threads: this one does it all
                for key in large:
                    futures[key] = pool.submit(digest_leaf, unique[key][1], unique[key][0])
            digests = {key: digest_leaf(value, path) for key, (path, value) in unique.items() if key not in futures}
            digests |= {key: future.result() for key, future in futures.items()}
    return {path: digests[id(leaf.value)] for path, leaf in leaves.items()}


def digest_leaf(value: object, path: str = "value") -> str:
    """Digests one leaf.

    Args:
        value: A tensor of any dtype, layout and device, a NumPy array or scalar, a number, a string, bytes, None,
            an enum member, or a `torch.dtype`, `torch.device`, `torch.layout` or `torch.memory_format`.
            Work on other CUDA streams than the current one must have ended.
        path: Names the leaf in the error.

    Returns:
        ``sha256:<hex>``. Equal for two leaves when kind, dtype, layout, shape and all bits are: NaN equals the
        same NaN, 0.0 differs from -0.0.

    Raises:
        LeafError: The value is of a kind that has no digest.
    """
    hasher = hashlib.sha256(VERSION_LINE)
    if isinstance(value, torch.Tensor):
        # A subclass's __torch_function__ is the user's code, and could answer anything.
        with torch._C.DisableTorchFunctionSubclass():
            _hash_tensor(hasher, value, path)
    else:
        header, content = _plain_bytes(value) or _numpy_bytes(value, path)
        hasher.update(header)
        hasher.update(content)
    return f"{ALGORITHM}:{hasher.hexdigest()}"


def _hash_tensor(hasher: "hashlib._Hash", tensor: torch.Tensor, path: str) -> None:
    composite = parts_of(tensor, path)
    kind, shape = ("tensor", tuple(tensor.shape)) if composite is None else composite[:2]
    dtype, layout = str(tensor.dtype).removeprefix("torch."), str(tensor.layout).removeprefix("torch.")
    hasher.update(f"{kind}\n{dtype}\n{layout}\n{_shape_text(shape)}\n".encode())
    if composite is not None:
        for name, part in composite.parts.items():
            digest = digest_leaf(part, f"{path}<{name}>")
            hasher.update(f"{name}\0{digest}\n".encode(errors="surrogatepass"))
        return
    if not has_data(tensor):
        raise LeafError(path, tensor, "has less storage than its shape needs (freed?); return it while it has data")
    for buffer in buffers(tensor):
        hasher.update(buffer)


def _plain_bytes(value: object) -> "tuple[bytes, Buffer] | None":
    """Returns header and content of a leaf of Python's or torch's own simple types; None for anything else."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic | numpy.ndarray):
        return None  # before the others: numpy.float64 is a float, numpy.str_ a str
    match value:
        case None:
            return b"none\n", b""
        case enum.Enum():
            return f"enum\n{type_name(value)}\n".encode(), str(value.name).encode()
        case bool():
            return b"bool\n", str(value).encode()
        case int():
            # Hexadecimal, since Python limits the length of decimal conversions.
            return b"int\n", f"{value:x}".encode()
        case float():
            return b"float\n", struct.pack("<d", value)
        case complex():
            return b"complex\n", struct.pack("<dd", value.real, value.imag)
        case str():
            return b"str\n", value.encode(errors="surrogatepass")
        case bytearray():
            return b"bytearray\n", value
        case bytes():
            return b"bytes\n", value
        case torch.dtype() | torch.device() | torch.layout() | torch.memory_format():
            return f"{type_name(value)}\n".encode(), str(value).removeprefix("torch.").encode()
    return None


def _numpy_bytes(value: Any, path: str) -> "tuple[bytes, Buffer]":
    """Returns header and content of a NumPy array or scalar; every other kind of leaf has been tried before."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.generic | numpy.ndarray):
        raise LeafError(path, value, "has no digest; return tensors, numbers, strings, or a nest of them")
    kind = "scalar" if isinstance(value, numpy.generic) else "array"
    if kind == "array" and type(value) not in (numpy.ndarray, numpy.memmap):
        raise LeafError(path, value, "may hold more than its elements; return numpy.asarray(...) of its parts")
    array = numpy.asarray(value)
    if array.dtype.kind not in "biufcmMSU" or array.dtype.char in "gG":
        # Object arrays hold addresses; structured ones and long doubles hold padding, which nobody sets.
        raise LeafError(path, value, f"has the dtype {array.dtype}; convert it to one of plain numbers")
    little = array.dtype.newbyteorder("<")
    content = numpy.ascontiguousarray(array.astype(little, copy=False)).reshape(-1)
    header = f"numpy.{kind}\n{little.str}\n{_shape_text(array.shape)}\n".encode()
    return header, content.view(numpy.uint8) if content.nbytes else b""


def _shape_text(shape: tuple[int, ...]) -> str:
    return ",".join(map(str, shape))


def _threaded_size(value: object) -> int:
    """Returns the size in bytes of a plain strided tensor, 0 for leaves that stay on the calling thread."""
    if not isinstance(value, torch.Tensor) or type(value).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return 0
    with torch._C.DisableTorchFunctionSubclass():
        plain = value.layout == torch.strided and not value.is_quantized and not value.is_nested
        return value.numel() * value.itemsize if plain else 0


def _synchronize(leaves: Mapping[str, Leaf]) -> None:
    """Waits for every CUDA device that a leaf lies on: other streams, and the pool's threads have the default one."""
    devices = {leaf.value.device for leaf in leaves.values() if isinstance(leaf.value, torch.Tensor)}
    for device in devices:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
