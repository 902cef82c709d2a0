"""The bundled workloads against their contract, and against what PyTorch documents of itself."""

import ast
import re
import warnings

import pytest
import torch

from repro_audit.discovery import bundled_folder, discover_folder, family
from repro_audit.records import WorkloadSource
from repro_audit.worker.alerts import refused_op
from repro_audit.worker.digest import digest_leaves
from repro_audit.worker.generators import generator_states, seed_generators
from repro_audit.worker.leaves import named_leaves
from repro_audit.worker.load import load_class

SOURCES = {source.name: source for source in discover_folder(bundled_folder(), bundled=True)}

COVERED = {
    "torch.nn.Conv1d": ["conv_variants-1d"],
    "torch.nn.Conv2d": ["convnet"],
    "torch.nn.Conv3d": ["conv_variants-3d"],
    "torch.nn.ConvTranspose1d": ["conv_variants-transposed"],
    "torch.nn.ConvTranspose2d": ["conv_variants-transposed"],
    "torch.nn.ConvTranspose3d": ["conv_variants-transposed"],
    "torch.nn.ReplicationPad1d": ["padding-replicate1d"],
    "torch.nn.ReplicationPad2d": ["padding-replicate2d"],
    "torch.nn.ReplicationPad3d": ["padding-replicate3d"],
    "torch.bmm": ["matmul", "sparse_matmul"],
    "torch.Tensor.__getitem__": ["indexing"],
    "torch.Tensor.index_put": ["index_put-accumulate", "index_put-overwrite"],
    "torch.Tensor.index_put_": ["index_put-accumulate", "index_put-overwrite"],
    "torch.Tensor.put_": ["put-accumulate", "put-overwrite"],
    "torch.Tensor.scatter_add_": ["scatter_add"],
    "torch.gather": ["gather"],
    "torch.index_add": ["index_add"],
    "torch.index_select": ["indexing"],
    "torch.repeat_interleave": ["repeat_interleave"],
    "torch.Tensor.index_copy": ["index_copy"],
    "torch.Tensor.scatter": ["scatter"],
    "torch.Tensor.scatter_reduce": ["scatter_reduce-sum", "scatter_reduce-mean", "scatter_reduce-prod"],
    "torch.nn.MaxPool3d": ["max_pool3d"],
    "torch.nn.AvgPool3d": ["avg_pool3d"],
    "torch.nn.AdaptiveAvgPool2d": ["adaptive_pool-avg2d"],
    "torch.nn.AdaptiveAvgPool3d": ["adaptive_pool-avg3d"],
    "torch.nn.AdaptiveMaxPool2d": ["adaptive_pool-max2d"],
    "torch.nn.FractionalMaxPool2d": ["fractional_max_pool-2d"],
    "torch.nn.FractionalMaxPool3d": ["fractional_max_pool-3d"],
    "torch.nn.MaxUnpool1d": ["max_unpool-1d"],
    "torch.nn.MaxUnpool2d": ["max_unpool-2d"],
    "torch.nn.MaxUnpool3d": ["max_unpool-3d"],
    "torch.nn.functional.interpolate": [
        "interpolate-linear",
        "interpolate-bilinear",
        "interpolate-bicubic",
        "interpolate-trilinear",
    ],
    "torch.nn.ReflectionPad1d": ["padding-reflect1d"],
    "torch.nn.ReflectionPad2d": ["padding-reflect2d"],
    "torch.nn.ReflectionPad3d": ["padding-reflect3d"],
    "torch.nn.NLLLoss": ["nll_loss-1d", "nll_loss-2d"],
    "torch.nn.CTCLoss": ["ctc_loss"],
    "torch.nn.EmbeddingBag": ["embedding_bag_max"],
    "torch.histc": ["histc"],
    "torch.bincount": ["bincount"],
    "torch.kthvalue": ["kthvalue"],
    "torch.median": ["median"],
    "torch.nn.functional.grid_sample": ["grid_sample-2d", "grid_sample-3d"],
    "torch.cumsum": ["cumsum"],
    "torch.Tensor.resize_": ["quantized_resize"],
    "torch.mm": ["matmul"],
    "torch.mv": ["matmul"],
}
"""Documented operation to the cases that reach it."""

LEFT_OUT: dict[str, str] = {}
"""Documented operation to the reason why no workload reaches it."""


def documented(docstring: str) -> set[str]:
    """The operations that the docstring of `torch.use_deterministic_algorithms` lists."""
    return set(re.findall(r"^\s*\*\s*:(?:class|func|attr|meth):`~?([\w.]+)`", docstring, re.MULTILINE))


def uncovered(docstring: str) -> set[str]:
    return documented(docstring) - COVERED.keys() - LEFT_OUT.keys()


def test_every_documented_operation_has_a_workload_or_a_reason():
    assert len(documented(torch.use_deterministic_algorithms.__doc__)) > 35
    assert uncovered(torch.use_deterministic_algorithms.__doc__) == set()


def test_an_operation_that_a_release_adds_would_be_noticed():
    docstring = f"{torch.use_deterministic_algorithms.__doc__}\n        * :func:`torch.brand_new` when called\n"
    assert uncovered(docstring) == {"torch.brand_new"}


def test_the_cases_that_cover_operations_exist():
    named = {name for names in COVERED.values() for name in names}
    assert named <= SOURCES.keys()


def test_the_classic_names_are_there():
    assert {"mlp", "matmul", "dataloader", "transformer", "bf16_autocast"} <= SOURCES.keys()
    assert {"scatter", "scatter_add", "scatter_reduce"} <= {family(source) for source in SOURCES.values()}


@pytest.mark.parametrize("name", list(SOURCES))
def test_a_workload_stands_alone_and_says_what_it_is(name):
    source = SOURCES[name]
    assert source.summary
    assert len(source.summary) <= 120
    with open(source.path) as stream:
        tree = ast.parse(stream.read())
    imported = {
        (alias.name if isinstance(node, ast.Import) else node.module or "").partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported <= {"torch", "random"}


def execute(source: WorkloadSource, steps: int = 2) -> list[dict[str, str]]:
    seed_generators(7)
    made = load_class(source)
    workload = made() if source.variant is None else made(source.variant)
    workload.setup(torch.device("cpu"))
    states = [digest_leaves(named_leaves(workload.state()))]
    for _ in range(steps):
        workload.step()
        states.append(digest_leaves({**named_leaves(workload.state()), **generator_states()}))
    return states


@pytest.fixture
def strict():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("name", list(SOURCES))
def test_a_workload_repeats_in_strict_mode_or_is_refused_where_it_says_so(name, strict):
    source = SOURCES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated ops are ops all the same
        if "cpu" in source.refused:
            with pytest.raises(RuntimeError) as caught:
                execute(source)
            assert refused_op(str(caught.value))
            return
        first, second = execute(source), execute(source)
    assert first == second
    assert first[1] != first[2], "a step must change what it leaves"
    assert all(leaf in first[-1] for leaf in first[0]), "no leaf may vanish"
