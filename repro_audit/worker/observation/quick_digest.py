"""Digests that are cheap enough for every step: xxh3_128 of what a leaf is and of every one of its bits.

Header and bytes are those of ``docs/digest.md``, under another hash function: a recording guards against accidents, and
at four to ten times the speed of SHA-256 it may look more often. What is no plain tensor has its usual digest.
"""

import random
import sys
from array import array
from collections.abc import Mapping
from typing import Any

import torch
import xxhash

from repro_audit.records import Role
from repro_audit.worker.bits import buffers, has_data
from repro_audit.worker.digest import VERSION_LINE, digest_leaf
from repro_audit.worker.leaves import Leaf, LeafError, rng_state
from repro_audit.worker.parts import parts_of

ALGORITHM = "xxh3_128"

ROW_LIMIT = 1024
"""Batches with more samples than this are digested whole only: each row costs about a microsecond."""

_MASK = 2**64 - 1


def quick_digest(value: object, path: str = "value") -> str:
    """Digests a leaf.

    Returns:
        ``xxh3_128:<hex>`` for a strided tensor, else ``sha256:<hex>``.

    Raises:
        LeafError: As for `digest_leaf`.
    """
    if not isinstance(value, torch.Tensor):
        return digest_leaf(value, path)
    with torch._C.DisableTorchFunctionSubclass():
        if parts_of(value, path) is not None:
            return digest_leaf(value, path)
        if not has_data(value):
            raise LeafError(path, value, "has less storage than its shape needs (freed?)")
        dtype, layout = str(value.dtype).removeprefix("torch."), str(value.layout).removeprefix("torch.")
        shape = ",".join(map(str, value.shape))
        hasher = xxhash.xxh3_128(VERSION_LINE + f"tensor\n{dtype}\n{layout}\n{shape}\n".encode())
        for buffer in buffers(value):
            hasher.update(buffer)
    return f"{ALGORITHM}:{hasher.hexdigest()}"


def quick_digests(leaves: Mapping[str, Leaf]) -> tuple[dict[str, str], dict[str, str]]:
    """Digests leaves, and says of which it could not, and why; a leaf under two paths is digested once."""
    digests: dict[str, str] = {}
    failures: dict[str, str] = {}
    known: dict[int, str] = {}
    for path, leaf in leaves.items():
        key = id(leaf.value)
        if key not in known:
            try:
                known[key] = quick_digest(leaf.value, path)
            except LeafError as error:
                failures[path] = str(error)
                continue
        digests[path] = known[key]
    return digests, failures


def row_sum(tensor: torch.Tensor) -> str | None:
    """The sum of the digests of a batch's rows, the same in whatever order they stand.

    Args:
        tensor: Samples along its first dimension.

    Returns:
        Sixteen hex digits; None for what is not a contiguous CPU tensor of 1 to `ROW_LIMIT` rows.
    """
    if tensor.dim() < 1 or not 1 <= tensor.shape[0] <= ROW_LIMIT or tensor.numel() == 0:
        return None
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided or not tensor.is_contiguous():
        return None
    (memory,) = buffers(tensor) if not (tensor.is_conj() or tensor.is_neg()) else (None,)
    if memory is None:
        return None
    size = len(memory) // tensor.shape[0]
    total = sum(xxhash.xxh3_64_intdigest(memory[start : start + size]) for start in range(0, len(memory), size))
    return f"{total & _MASK:016x}"


def generator_digests() -> dict[str, str]:
    """The state of each generator that every program shares, those of CUDA devices once CUDA is in use."""
    digests = {"python": _python_digest(), "torch": quick_digest(torch.default_generator.get_state())}
    numpy: Any = sys.modules.get("numpy.random")
    if numpy is not None:
        digests["numpy"] = _numpy_digest(numpy.get_state.__self__)
    if torch.cuda.is_initialized():
        for index, generator in enumerate(torch.cuda.default_generators):
            digests[f"torch.cuda.{index}"] = quick_digest(generator.get_state())
    return digests


def _python_digest() -> str:
    version, words, gauss = random.getstate()
    hasher = xxhash.xxh3_128(array("I", words).tobytes())
    hasher.update(f"{version} {gauss!r}".encode())
    return f"{ALGORITHM}:{hasher.hexdigest()}"


def _numpy_digest(generator: Any) -> str:
    state = generator.get_state(legacy=False)
    inner = state.get("state")
    if not isinstance(inner, dict) or not hasattr(inner.get("key"), "tobytes"):
        return digest_leaf(rng_state(generator))  # another bit generator than the usual one
    hasher = xxhash.xxh3_128(inner["key"].tobytes())
    hasher.update(
        f"{state.get('bit_generator')} {inner.get('pos')} {state.get('has_gauss')} {state.get('gauss')!r}".encode()
    )
    return f"{ALGORITHM}:{hasher.hexdigest()}"


def roles_of(leaves: Mapping[str, Leaf]) -> dict[str, Role]:
    """The roles that say more than that something is a value."""
    return {path: leaf.role for path, leaf in leaves.items() if leaf.role is not Role.VALUE}
