import sys
from pathlib import Path

import pytest

from repro_audit.discovery import discover
from repro_audit.worker.load import ChangedSourceError, load_class

CODE = '''"""Uses a helper beside it."""

from helper_of_this_test import NUMBER


class Workload:
    number = NUMBER

    def setup(self, device): ...

    def step(self): ...

    def state(self): ...
'''


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "helper_of_this_test.py").write_text("NUMBER = 7\n")
    (tmp_path / "uses_helper.py").write_text(CODE)
    yield tmp_path
    for name in ("helper_of_this_test", "repro_audit_workload_uses_helper", "uses_helper"):
        sys.modules.pop(name, None)


def test_a_file_is_loaded_with_its_own_folder_on_the_path(folder):
    (source,) = discover([], [folder / "uses_helper.py"])
    made = load_class(source)
    assert made.number == 7
    assert made.__module__ == "uses_helper"


def test_a_file_named_like_a_module_in_use_does_not_take_its_place(folder):
    (folder / "random.py").write_text(CODE)
    (source,) = discover([], [folder / "random.py"])
    before = sys.modules["random"]
    assert load_class(source).__module__ == "repro_audit_workload_random"
    assert sys.modules["random"] is before
    del sys.modules["repro_audit_workload_random"]


def test_a_class_of_a_module_is_imported_from_the_current_directory(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (source,) = discover(["uses_helper:Workload"], [])
    assert load_class(source).number == 7


def test_a_file_that_changed_since_the_audit_began_is_not_run(folder):
    path = folder / "uses_helper.py"
    (source,) = discover([], [path])
    path.write_text(CODE.replace("Uses", "Used"))
    with pytest.raises(ChangedSourceError, match="changed while the audit ran"):
        load_class(source)


def test_what_importing_raises_is_passed_on(folder):
    (folder / "uses_helper.py").write_text(CODE.replace("NUMBER\n\n", "NUMBER\n\nraise ValueError('no data')\n", 1))
    (source,) = discover([], [folder / "uses_helper.py"])
    with pytest.raises(ValueError, match="no data"):
        load_class(source)
