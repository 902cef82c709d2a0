"""What a tensor that is more than one block of memory is made of: sparse, quantized, nested, wrapped ones."""

from typing import Any, NamedTuple

import torch

from repro_audit.worker.leaves import LeafError, named_leaves, type_name

_COMPRESSED = {
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
    torch.sparse_bsr: ("crow_indices", "col_indices"),
    torch.sparse_bsc: ("ccol_indices", "row_indices"),
}
"""Layout to the methods that give its two index tensors, outer one first."""

_PACKED_QUANTIZED = (torch.quint4x2, torch.quint2x4)


class Parts(NamedTuple):
    """A tensor taken apart; `parts` are leaves again, in a fixed order."""

    kind: str
    shape: tuple[int, ...]
    parts: dict[str, object]


def parts_of(tensor: torch.Tensor, path: str) -> Parts | None:
    """Takes `tensor` apart, and returns None for a plain strided one.

    Raises:
        LeafError: The tensor has no data of its own (meta, fake, a `torch.func` transform), or is of a subclass
            that hides its data. `path` is for the message.
    """
    if torch._is_functional_tensor(tensor) or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        raise LeafError(path, tensor, "belongs to a running torch.func transform; return its result instead")
    if tensor.is_nested:
        components = tensor.detach().unbind()
        return Parts("nested", (len(components),), {str(i): component for i, component in enumerate(components)})
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return _wrapped(tensor, path)
    if tensor.is_meta:
        raise LeafError(path, tensor, "is on the meta device and has no data; materialize it on a real device")
    if tensor.layout == torch.strided:
        return _quantized(tensor, path) if tensor.is_quantized else None
    shape = tuple(tensor.shape)
    tensor = tensor.detach()
    if tensor.layout == torch.sparse_coo:
        parts = {"coalesced": tensor.is_coalesced(), "indices": tensor._indices(), "values": tensor._values()}
        return Parts("sparse", shape, parts)
    if tensor.layout in _COMPRESSED:
        outer, inner = _COMPRESSED[tensor.layout]
        parts = {outer: getattr(tensor, outer)(), inner: getattr(tensor, inner)(), "values": tensor.values()}
        return Parts("sparse", shape, parts)
    if tensor.layout == torch._mkldnn:  # type: ignore[attr-defined]
        return Parts("mkldnn", shape, {"values": tensor.to_dense()})
    raise LeafError(path, tensor, f"has the unknown layout {tensor.layout}; return tensor.to_dense()")


def _wrapped(tensor: Any, path: str) -> Parts:
    """Takes a wrapper subclass apart by PyTorch's own protocol for that, the one `torch.compile` uses."""
    if not hasattr(tensor, "__tensor_flatten__"):
        raise LeafError(path, tensor, "hides its data (no __tensor_flatten__); return the plain tensors it holds")
    names, context = tensor.__tensor_flatten__()
    parts: dict[str, object] = {"class": type_name(tensor)}
    parts |= {f"context/{name}": leaf.value for name, leaf in named_leaves(context).items()}
    parts |= {f"inner/{name}": getattr(tensor, name) for name in names}
    return Parts("wrapper", tuple(tensor.shape), parts)


def _quantized(tensor: torch.Tensor, path: str) -> Parts:
    if tensor.dtype in _PACKED_QUANTIZED and not tensor.is_contiguous():
        # int_repr ignores the strides of these two.
        raise LeafError(path, tensor, "is packed and not contiguous; return tensor.dequantize()")
    tensor = tensor.detach()
    scheme = tensor.qscheme()
    parts: dict[str, object] = {"scheme": str(scheme).removeprefix("torch.")}
    if scheme in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        parts |= {"scale": tensor.q_scale(), "zero_point": tensor.q_zero_point()}
    else:
        parts |= {
            "axis": tensor.q_per_channel_axis(),
            "scales": tensor.q_per_channel_scales(),
            "zero_points": tensor.q_per_channel_zero_points(),
        }
    return Parts("quantized", tuple(tensor.shape), parts | {"values": tensor.int_repr()})
