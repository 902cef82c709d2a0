"""What PyTorch documents of its determinism, and which workload reaches each of those statements."""

import re
from enum import StrEnum
from typing import NamedTuple


class Promise(StrEnum):
    """What the docstring of `torch.use_deterministic_algorithms` says of an operation."""

    DETERMINISTIC = "made deterministic"
    REFUSED = "refused"
    CUBLAS = "needs the cuBLAS setting"


class Statement(NamedTuple):
    """One bullet of a list, or one of the bullets under it."""

    promise: Promise
    operation: str
    condition: str

    @property
    def device_types(self) -> set[str]:
        named = {device for device in ("cpu", "cuda") if re.search(rf"\b{device}\b", self.condition.lower())}
        return named or {"cpu", "cuda"}


class Coverage(NamedTuple):
    """The cases that reach an operation under those conditions that contain `words`."""

    operation: str
    words: str
    cases: tuple[str, ...]

    def covers(self, statement: Statement) -> bool:
        return self.operation == statement.operation and (
            re.search(rf"(?<!\w){re.escape(self.words)}(?!\w)", statement.condition) is not None
        )


HEADINGS = {
    "will act deterministically when": Promise.DETERMINISTIC,
    "will throw a RuntimeError when": Promise.REFUSED,
    "will be raised from these operations": Promise.CUBLAS,
}
"""Words of the paragraph before a list, without markup."""


def statements(docstring: str) -> list[Statement]:
    """The statements of a docstring, in its order; an item of a nested list is a statement of its own."""
    found: list[Statement] = []
    promise: Promise | None = None
    for block in re.split(r"\n\s*\n", docstring):
        text = plain(block)
        if "* " in text and re.match(r"\* [\w.]+", text) and promise is not None:
            for bullet in re.split(r"(?:^| )\* (?=[\w.]+)", text)[1:]:
                operation, _, condition = bullet.partition(" ")
                found.append(Statement(promise, operation, condition))
        elif re.match(r"- \w+", text) and found and found[-1].condition.endswith(":"):
            parent = found.pop()
            found += [parent._replace(condition=f"{parent.condition} {item}") for item in text[2:].split(" - ")]
        else:
            promise = next((kind for words, kind in HEADINGS.items() if words in text), None)
    return found


def plain(text: str) -> str:
    """The text on one line, without roles and literals."""
    return " ".join(re.sub(r":\w+:`~?([^`]*)`|`+([^`]*)`+", r"\1\2", text).split())


def uncovered(docstring: str) -> list[Statement]:
    """The statements that neither a workload nor a reason answers."""
    return [
        statement
        for statement in statements(docstring)
        if statement.operation not in LEFT_OUT and not any(entry.covers(statement) for entry in COVERED)
    ]


COVERED = (
    Coverage("torch.nn.Conv1d", "CUDA", ("conv_variants-1d",)),
    Coverage("torch.nn.Conv2d", "CUDA", ("convnet",)),
    Coverage("torch.nn.Conv3d", "CUDA", ("conv_variants-3d",)),
    Coverage("torch.nn.ConvTranspose1d", "CUDA", ("conv_variants-transposed",)),
    Coverage("torch.nn.ConvTranspose2d", "CUDA", ("conv_variants-transposed",)),
    Coverage("torch.nn.ConvTranspose3d", "CUDA", ("conv_variants-transposed",)),
    Coverage("torch.nn.Embedding", "CUDA", ("embedding_model", "transformer")),
    Coverage("torch.nn.ReplicationPad1d", "CUDA", ("padding-replicate1d",)),
    Coverage("torch.nn.ReplicationPad2d", "CUDA", ("padding-replicate2d",)),
    Coverage("torch.nn.ReplicationPad3d", "CUDA", ("padding-replicate3d",)),
    Coverage("torch.bmm", "sparse-dense CUDA", ("sparse_matmul",)),
    Coverage("torch.Tensor.__getitem__", "CPU", ("indexing",)),
    Coverage("torch.Tensor.index_put", "accumulate=False", ("index_put-overwrite",)),
    Coverage("torch.Tensor.index_put", "accumulate=True when called on a CPU", ("index_put-accumulate",)),
    Coverage("torch.Tensor.put_", "accumulate=True when called on a CPU", ("put-accumulate",)),
    Coverage("torch.Tensor.put_", "accumulate=True and called on a CUDA", ("put-accumulate", "take")),
    Coverage("torch.Tensor.put_", "accumulate=False", ("put-overwrite",)),
    Coverage("torch.Tensor.scatter_add_", "CUDA", ("scatter_add",)),
    Coverage("torch.gather", "CUDA", ("gather",)),
    Coverage("torch.index_add", "CUDA", ("index_add",)),
    Coverage("torch.index_select", "CUDA", ("indexing",)),
    Coverage("torch.repeat_interleave", "CUDA", ("repeat_interleave",)),
    Coverage("torch.Tensor.index_copy", "CPU or CUDA", ("index_copy",)),
    Coverage("torch.Tensor.scatter", "src type is Tensor and called on CUDA", ("scatter",)),
    Coverage(
        "torch.Tensor.scatter_reduce", "reduce='sum' or reduce='mean'", ("scatter_reduce-sum", "scatter_reduce-mean")
    ),
    Coverage("torch.Tensor.scatter_reduce", "reduce='prod'", ("scatter_reduce-prod",)),
    Coverage("torch.nn.MaxPool3d", "CUDA", ("max_pool3d-indices", "max_pool3d-values")),
    Coverage("torch.nn.AvgPool3d", "CUDA", ("avg_pool3d",)),
    Coverage("torch.nn.AdaptiveAvgPool2d", "CUDA", ("adaptive_pool-avg2d", "interpolate-area")),
    Coverage("torch.nn.AdaptiveAvgPool3d", "CUDA", ("adaptive_pool-avg3d",)),
    Coverage("torch.nn.AdaptiveMaxPool2d", "CUDA", ("adaptive_pool-max2d",)),
    Coverage("torch.nn.FractionalMaxPool2d", "CUDA", ("fractional_max_pool-2d",)),
    Coverage("torch.nn.FractionalMaxPool3d", "CUDA", ("fractional_max_pool-3d",)),
    Coverage("torch.nn.MaxUnpool1d", "", ("max_unpool-1d",)),
    Coverage("torch.nn.MaxUnpool2d", "", ("max_unpool-2d",)),
    Coverage("torch.nn.MaxUnpool3d", "", ("max_unpool-3d",)),
    Coverage("torch.nn.functional.interpolate", "linear", ("interpolate-linear",)),
    Coverage("torch.nn.functional.interpolate", "bilinear", ("interpolate-bilinear",)),
    Coverage("torch.nn.functional.interpolate", "bicubic", ("interpolate-bicubic",)),
    Coverage("torch.nn.functional.interpolate", "trilinear", ("interpolate-trilinear",)),
    Coverage("torch.nn.ReflectionPad1d", "CUDA", ("padding-reflect1d",)),
    Coverage("torch.nn.ReflectionPad2d", "CUDA", ("padding-reflect2d",)),
    Coverage("torch.nn.ReflectionPad3d", "CUDA", ("padding-reflect3d",)),
    Coverage("torch.nn.NLLLoss", "CUDA", ("nll_loss-1d", "nll_loss-2d")),
    Coverage("torch.nn.CTCLoss", "CUDA", ("ctc_loss",)),
    Coverage("torch.nn.EmbeddingBag", "mode='max'", ("embedding_bag_max",)),
    Coverage("torch.histc", "CUDA", ("histc",)),
    Coverage("torch.bincount", "weights", ("bincount",)),
    Coverage("torch.kthvalue", "CUDA", ("kthvalue",)),
    Coverage("torch.median", "with indices output", ("median",)),
    Coverage("torch.nn.functional.grid_sample", "CUDA", ("grid_sample-2d", "grid_sample-3d")),
    Coverage("torch.cumsum", "CUDA", ("cumsum",)),
    Coverage("torch.Tensor.resize_", "quantized", ("quantized_resize",)),
    Coverage("torch.mm", "", ("matmul",)),
    Coverage("torch.mv", "", ("matmul",)),
    Coverage("torch.bmm", "", ("matmul",)),
)
"""Also what only some of the supported releases document: what is not in this one's docstring does no harm."""

LEFT_OUT: dict[str, str] = {}
"""Documented operation to the reason why no workload reaches it."""

CHANGED_SIDES = {
    "torch.nn.MaxPool3d": "refused in 2.9, deterministic in 2.13 where indices are returned, still refused otherwise",
    "torch.cumsum": "refused up to 2.13, deterministic in 2.14",
}
"""Made deterministic in one release and declared refused because of another: a declared refusal may stay away."""
