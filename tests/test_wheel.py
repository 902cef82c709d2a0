"""The wheel, as users without a checkout get it."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return built


def test_the_workloads_are_inside_the_package_and_no_top_level_name_is_taken(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "repro_audit/bundled_workloads/mlp.py" in names
    assert "repro_audit/canaries/one_ulp.py" in names
    assert "repro_audit/py.typed" in names
    top = {name.partition("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"repro_audit"}


def test_it_finds_its_workloads_from_an_empty_folder(wheel, tmp_path):
    site, empty = tmp_path / "site", tmp_path / "empty"
    zipfile.ZipFile(wheel).extractall(site)
    empty.mkdir()

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "repro_audit", *arguments],
            cwd=empty,
            env={**os.environ, "PYTHONPATH": str(site), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
        )

    listed = run("list", "mlp")
    assert "The classic smoke test" in listed.stdout, listed.stderr
    audited = run("run", "mlp", "--device", "cpu", "-q")
    assert audited.returncode == 0, audited.stderr
    (archive,) = (empty / "reports").iterdir()
    assert f"{site}/repro_audit/bundled_workloads/mlp.py" in (archive / "evidence.yaml").read_text()
