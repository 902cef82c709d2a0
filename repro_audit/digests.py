"""The digest of a whole state, computed alike by the worker that saw it and by whoever checks the evidence."""

import hashlib
from collections.abc import Mapping

ALGORITHM = "sha256"


def state_digest(leaves: Mapping[str, str]) -> str:
    r"""Digest of a state from the digests of its leaves, whatever order they came in.

    Args:
        leaves: Leaf path to ``sha256:<hex>``.

    Returns:
        ``sha256:<hex>`` over one line ``<leaf>\0<digest>\n`` for each leaf, sorted by the leaf's UTF-8 bytes.
    """
    lines = sorted(f"{leaf}\0{digest}\n".encode() for leaf, digest in leaves.items())
    return f"{ALGORITHM}:{hashlib.sha256(b''.join(lines)).hexdigest()}"
