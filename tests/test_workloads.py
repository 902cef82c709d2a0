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
from tests.documented_operations import CHANGED_SIDES, COVERED, Promise, Statement, statements, uncovered

SOURCES = {source.name: source for source in discover_folder(bundled_folder(), bundled=True)}

DOCSTRING = torch.use_deterministic_algorithms.__doc__


def test_every_documented_statement_has_a_workload_or_a_reason():
    assert uncovered(DOCSTRING) == []


def test_all_lists_of_the_documentation_are_read():
    found = statements(DOCSTRING)
    by_promise = {promise: [entry.operation for entry in found if entry.promise is promise] for promise in Promise}
    assert {"torch.nn.Conv1d", "torch.Tensor.index_put"} <= set(by_promise[Promise.DETERMINISTIC])
    assert {"torch.nn.AvgPool3d", "torch.Tensor.resize_"} <= set(by_promise[Promise.REFUSED])
    assert by_promise[Promise.REFUSED].count("torch.nn.functional.interpolate") == 4
    assert min(len(by_promise[Promise.DETERMINISTIC]), len(by_promise[Promise.REFUSED])) > 20
    assert len(found) == len(re.findall(r"^\s*\* :", DOCSTRING, re.MULTILINE)) + 3, "no bullet may be lost"


def test_the_list_that_older_releases_have_for_cublas_is_read():
    docstring = """
    If one of these environment variable configurations is not set, a :class:`RuntimeError`
    will be raised from these operations when called with CUDA tensors:

        * :func:`torch.mm`
        * :func:`torch.bmm`

    Note that deterministic operations tend to be slower.
    """
    assert statements(docstring) == [
        Statement(Promise.CUBLAS, "torch.mm", ""),
        Statement(Promise.CUBLAS, "torch.bmm", ""),
    ]
    assert uncovered(docstring) == []


def extended(bullet: str) -> str:
    """The docstring of a release that adds a bullet to its first list."""
    return DOCSTRING.replace(
        "        * :class:`torch.nn.Conv1d`", f"        * {bullet}\n        * :class:`torch.nn.Conv1d`", 1
    )


def test_an_operation_that_a_release_adds_would_be_noticed():
    missing = uncovered(extended(":func:`torch.brand_new` when called on CUDA tensor"))
    assert missing == [Statement(Promise.DETERMINISTIC, "torch.brand_new", "when called on CUDA tensor")]


def test_a_condition_that_a_release_adds_to_a_known_operation_would_be_noticed():
    (missing,) = uncovered(extended(":func:`torch.Tensor.index_put` with\n          ``accumulate=None`` on a phone"))
    assert missing.condition == "with accumulate=None on a phone"


def test_the_cases_that_cover_operations_exist():
    assert {name for entry in COVERED for name in entry.cases} <= SOURCES.keys()


def test_a_documented_refusal_is_declared_and_a_promise_of_determinism_is_not_taken_back():
    for statement in statements(DOCSTRING):
        for name in {name for entry in COVERED if entry.covers(statement) for name in entry.cases}:
            declared = SOURCES[name].refused.keys() & statement.device_types
            if statement.promise is Promise.REFUSED:
                assert declared == statement.device_types, (name, statement)
            elif statement.operation not in CHANGED_SIDES and statement.promise is Promise.DETERMINISTIC:
                assert not declared, (name, statement)


def test_every_declared_refusal_names_its_source():
    sources = {link for source in SOURCES.values() for link in source.refused.values()}
    assert all(link.startswith(("https://docs.pytorch.org/", "https://github.com/pytorch/")) for link in sources)


def test_the_classic_names_are_there():
    assert {"mlp", "matmul", "dataloader", "transformer", "bf16_autocast"} <= SOURCES.keys()
    assert {"scatter", "scatter_add", "scatter_reduce"} <= {family(source) for source in SOURCES.values()}


@pytest.mark.parametrize("name", list(SOURCES))
def test_a_workload_stands_alone_and_says_what_it_is(name):
    source = SOURCES[name]
    assert source.summary
    assert len(source.summary) < 90
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
