"""Every variation has a workload that depends on exactly that property; real interpreters find it, and only it."""

import dataclasses
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from repro_audit.archive import Archive
from repro_audit.discovery import discover
from repro_audit.finish import finish
from repro_audit.interpreter_pool import InterpreterPool
from repro_audit.records import Isolation, Mode, Settings, Verdict
from repro_audit.report import evidence
from repro_audit.report.progress import SilentProgress
from repro_audit.settings import resolve_cublas_workspace, worker_environment
from repro_audit.variation_choice import chosen_variations
from repro_audit.variation_records import Effect, Expectation, VariationReport, VariedCase
from repro_audit.variations import VARIATIONS
from repro_audit.vary_workloads import vary_workloads
from repro_audit.worker.environment import devices

pytestmark = [pytest.mark.slow, pytest.mark.serial]

FOLDER = Path(__file__).parent / "varied"

ON_THE_CPU = tuple(dataclasses.replace(one, devices=("cpu", "cuda")) for one in VARIATIONS)
"""The settings of CUDA can be changed, and read, where there is none."""

NEVER_DIFFERENT = {
    "onednn-isa": "no kernels of oneDNN for this processor",
    "cpu-capability": "no other capability on this processor",
    "mkl-cbwr": "built without MKL",
}


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> VariationReport:
    environ = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONHASHSEED", "CUBLAS_WORKSPACE_CONFIG")
    }
    workspace = resolve_cublas_workspace(None, environ)
    settings = Settings(
        modes=(Mode.STRICT,),
        selection=(),
        workload_paths=(str(FOLDER),),
        devices=("cpu",),
        required_devices=(),
        steps=1,
        repeats=1,
        seed=1,
        timeout_ms=60_000,
        isolation=Isolation.FORK,
        cublas_workspace=workspace,
    )
    sources = [*discover([], [FOLDER]), *discover(["mlp"], [])]
    archive = Archive.create(tmp_path_factory.mktemp("reports"), datetime.now(UTC))
    with InterpreterPool(settings.isolation, worker_environment(environ, workspace)) as pool:
        # Of each variation the values that find something, and one that must not where there is one.
        fewer = "hashseed=1,threads=1,cpu-capability=default,mkl-cbwr=COMPATIBLE,onednn-isa=SSE41,locale=C,tf32=on"
        chosen = chosen_variations(["+all", fewer, "dataloader-workers=0,sdpa-backend=math,allocator=uncached"])
        made = vary_workloads(settings, sources, chosen, pool, archive, SilentProgress(), ON_THE_CPU)
    made = finish(made)
    evidence.save(made, archive.folder)
    loaded = evidence.load(archive.folder)
    assert loaded == made
    return made


def case(report: VariationReport, name: str) -> VariedCase:
    (found,) = [one for one in report.cases if one.subject == f"{name}/cpu"]
    return found


@pytest.mark.parametrize("variation", VARIATIONS, ids=lambda variation: variation.name)
def test_a_workload_that_depends_on_one_property_is_caught_by_that_variation_and_by_no_other(report, variation):
    found = case(report, variation.name.replace("-", "_"))
    made = [cell for cell in found.cells if cell.variation == variation.name]
    if variation.name == "device-index" and len(devices()[0]) < 3:
        assert {cell.effect for cell in made} == {Effect.NOT_APPLICABLE}
        pytest.skip("there are no two CUDA devices")
    if all(cell.effect is Effect.NOT_APPLICABLE for cell in made):
        pytest.skip("; ".join(cell.reason for cell in made))
    assert {cell.variation for cell in found.cells if cell.effect is Effect.DIFFERS} == {variation.name}
    assert not [cell for cell in found.cells if cell.effect in (Effect.FAILED, Effect.NOT_JUDGED)]
    strict = variation.expectation is Expectation.MUST_NOT_MATTER
    assert found.verdict is (Verdict.FAIL if strict else Verdict.PASS)
    differing = next(cell for cell in made if cell.effect is Effect.DIFFERS)
    assert (differing.differing, differing.runs) == (3, 3)
    assert f"with the same {variation.words} (" in found.claim
    assert (f"must not depend on {variation.words}, and do" in found.claim) is strict


def test_a_good_workload_is_disturbed_by_nothing_that_must_not_matter(report):
    found = case(report, "mlp")
    assert found.verdict is Verdict.PASS
    strict = [cell for cell in found.cells if cell.expectation is Expectation.MUST_NOT_MATTER]
    assert {cell.effect for cell in strict} <= {Effect.SAME, Effect.NOT_APPLICABLE}
    assert {"hashseed", "malloc", "fill", "clock", "file-order", "contention"} <= {
        cell.variation for cell in strict if cell.effect is Effect.SAME
    }
    assert "bits did not depend on hash seed" in found.claim


def test_how_far_the_bits_are_apart_is_measured(report):
    cells = case(report, "mkl_cbwr").cells
    differing = [cell for cell in cells if cell.effect is Effect.DIFFERS]
    if not differing:
        pytest.skip(NEVER_DIFFERENT["mkl-cbwr"])
    assert differing[0].distance is not None
    assert differing[0].distance.dtype == "float64"
    assert 0 < differing[0].distance.differing <= 90_000


def test_what_was_held_is_in_the_evidence(report):
    held = case(report, "mlp").held
    assert held["hashseed"] == "0"
    assert held["clock"].startswith("2023-11-14")
    assert held["fill"] == "on"
    assert int(held["threads"]) >= 1
