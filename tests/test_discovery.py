import hashlib
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from repro_audit.declaration import FILE_CAP_BYTES
from repro_audit.discovery import bundled_folder, canary_folder, discover, discover_folder
from repro_audit.errors import WorkloadError

METHODS = """
    def setup(self, device):
        pass

    def step(self):
        return 0.0

    def state(self):
        return {}
"""

WORKLOAD = f'"""Adds numbers.\n\nAnd more words.\n"""\n\n\nclass Workload:{METHODS}'


def workload(attributes: str) -> str:
    return f"class Workload:\n    {attributes}\n{METHODS}"


def write(path: Path, content: str = WORKLOAD) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def names(sources):
    return [source.name for source in sources]


@pytest.fixture
def own(tmp_path):
    """A folder of the user's own, with a helper module and what a folder gathers besides."""
    folder = tmp_path / "own"
    write(folder / "adds.py")
    write(folder / "pool.py", workload('variants = ("max", "average")'))
    write(folder / "helper.py", "raise SystemExit('a helper was run')\n")
    write(folder / "_private.py", "not python")
    write(folder / ".#adds.py", "not python")
    write(folder / "notes.txt", "not python")
    (folder / "folder.py").mkdir()
    return folder


@pytest.fixture
def bundled(tmp_path):
    folder = tmp_path / "bundled"
    for name in ("gather", "scatter", "scatter_add"):
        write(folder / f"{name}.py")
    return folder


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    """A current directory of the test's own."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


def test_a_folder_gives_its_workloads_by_name_and_passes_over_what_is_none(own):
    assert names(discover_folder(own, bundled=False)) == ["adds", "pool-average", "pool-max"]


def test_a_source_says_all_that_a_run_needs(own):
    (source,) = discover([], [own / "adds.py"])
    assert source.summary == "Adds numbers."
    assert source.path == str(own / "adds.py")
    assert source.sha256 == f"sha256:{hashlib.sha256((own / 'adds.py').read_bytes()).hexdigest()}"
    assert (source.module, source.class_name, source.variant) == (None, "Workload", None)
    assert source.refused == {}
    assert not source.bundled


def test_nothing_of_a_workload_runs_when_it_is_discovered(tmp_path):
    write(tmp_path / "loud.py", f"raise SystemExit('it was run')\n{WORKLOAD}")
    assert names(discover_folder(tmp_path, bundled=False)) == ["loud"]


def test_the_canaries_are_found_where_they_are_said_to_be():
    assert names(discover_folder(canary_folder(), bundled=True)) == ["one_ulp", "refused_op", "unseeded"]


def test_the_bundled_workloads_of_this_checkout_are_found():
    assert bundled_folder() == Path(__file__).resolve().parent.parent / "workloads"


@pytest.mark.parametrize(
    ("inside", "beside", "project", "expected"),
    [
        (True, True, "repro-audit", "site/repro_audit/bundled_workloads"),
        (False, True, "repro-audit", "site/workloads"),
        (False, True, "somebody-elses", None),
        (False, True, None, None),
        (False, False, "repro-audit", None),
    ],
)
def test_a_folder_beside_an_installed_package_is_never_taken_for_the_bundled_one(
    tmp_path, inside, beside, project, expected
):
    package = tmp_path / "site" / "repro_audit"
    shutil.copytree(
        Path(__file__).resolve().parent.parent / "repro_audit", package, ignore=shutil.ignore_patterns("__pycache__")
    )
    if inside:
        (package / "bundled_workloads").mkdir()
    if beside:
        (tmp_path / "site" / "workloads").mkdir()
    if project:
        write(tmp_path / "site" / "pyproject.toml", f'[project]\nname = "{project}"\n')
    found = subprocess.run(
        [sys.executable, "-c", "from repro_audit.discovery import bundled_folder; print(bundled_folder())"],
        cwd=tmp_path / "site",
        capture_output=True,
        text=True,
        check=False,
    )
    if expected:
        assert found.stdout.strip() == str(tmp_path / expected)
    else:
        assert "the bundled workloads are missing" in found.stderr
        assert "install repro-audit again" in found.stderr


# ------------------------------------------------------------------------------------ which are taken


def test_without_paths_and_names_all_bundled_workloads_are_taken(bundled):
    sources = discover([], [], bundled)
    assert names(sources) == ["gather", "scatter", "scatter_add"]
    assert all(source.bundled for source in sources)


def test_with_paths_and_without_names_only_those_of_the_paths_are_taken(own, bundled):
    assert names(discover([], [own], bundled)) == ["adds", "pool-average", "pool-max"]


def test_names_select_from_both_in_the_order_of_discovery_and_each_once(own, bundled):
    selection = ["scatter*", "adds", "scatter", "gather"]
    assert names(discover(selection, [own], bundled)) == ["adds", "gather", "scatter", "scatter_add"]


@pytest.mark.parametrize(
    ("item", "chosen"),
    [
        ("pool", ["pool-average", "pool-max"]),
        ("pool-max", ["pool-max"]),
        ("*-m?x", ["pool-max"]),
        ("[ag]*", ["adds", "gather"]),
        ("scatter", ["scatter"]),
    ],
)
def test_an_item_is_a_name_a_family_or_a_glob(own, bundled, item, chosen):
    assert names(discover([item], [own], bundled)) == chosen


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ("scater_add", r"did you mean .*scatter_add"),
        ("ADDS", r"did you mean adds\?"),
        ("pool-mex", r"did you mean .*pool-max"),
        ("nothing_like_it", r"repro-audit list shows what there is"),
        ("", r"repro-audit list"),
        ("model.py", r"--workloads model\.py"),
        ("models/mlp", r"--workloads models/mlp"),
        ("scatteR*", r"no workload matches 'scatteR\*'.*repro-audit list"),
    ],
)
def test_an_unknown_name_is_an_error_that_says_what_was_meant_or_where_to_look(own, bundled, item, words):
    with pytest.raises(WorkloadError, match=words) as caught:
        discover([item], [own], bundled)
    assert repr(item) in str(caught.value)


def test_one_file_given_twice_is_one_workload(own):
    assert names(discover([], [own / "adds.py", own, own / "adds.py"])) == ["adds", "pool-average", "pool-max"]


def test_two_files_of_one_name_are_an_error_that_names_both(own, bundled):
    other = write(own.parent / "other" / "adds.py")
    with pytest.raises(WorkloadError, match="rename") as caught:
        discover([], [own, other])
    assert str(own / "adds.py") in str(caught.value)
    assert str(other) in str(caught.value)


def test_a_name_that_a_bundled_workload_has_too_is_an_error_that_names_both(own, bundled):
    mine = write(own / "gather.py")
    with pytest.raises(WorkloadError, match="rename") as caught:
        discover(["gather"], [own], bundled)
    assert str(mine) in str(caught.value)
    assert str(bundled / "gather.py") in str(caught.value)


def test_a_variant_cannot_take_the_name_of_another_file(own):
    write(own / "pool-max.py")
    with pytest.raises(WorkloadError, match="two workloads are named pool-max"):
        discover([], [own])


# --------------------------------------------------------------------------------------------- paths


def test_paths_may_be_relative_or_below_home_or_links(own, in_folder, monkeypatch):
    monkeypatch.setenv("HOME", str(own.parent))
    (in_folder / "link.py").symlink_to(own / "adds.py")
    (in_folder / "link").symlink_to(own)
    (relative,) = discover([], [Path("../own/adds.py")])
    assert relative.path == str(own / "adds.py")
    assert discover([], ["~/own/adds.py"]) == (relative,)
    (link,) = discover([], ["link.py"])
    assert (link.name, link.path) == ("link", str(own / "adds.py"))
    assert names(discover([], ["link"])) == ["adds", "pool-average", "pool-max"]


def test_a_path_that_leads_nowhere_is_an_error_that_names_it(in_folder):
    with pytest.raises(WorkloadError, match=r"^missing\.py does not exist"):
        discover([], ["missing.py"])
    (in_folder / "loop").symlink_to("loop")
    for path in ("missing.py", "loop", "null\0.py", "~nobody_of_that_name/x.py", "x" * 5000):
        with pytest.raises(WorkloadError, match="--workloads takes a file or a folder") as caught:
            discover([], [path])
        assert repr(path)[1:-1] in str(caught.value)


def test_a_folder_without_workloads_is_an_error(in_folder):
    write(in_folder / "deeper" / "adds.py")
    with pytest.raises(WorkloadError, match=r"no workload in \.: .*name the file"):
        discover([], ["."])


def test_a_file_that_is_no_python_file_or_no_regular_one_is_an_error(in_folder):
    write(in_folder / "adds.txt")
    with pytest.raises(WorkloadError, match=r"does not end in \.py"):
        discover([], ["adds.txt"])
    os.mkfifo(in_folder / "pipe.py")
    with pytest.raises(WorkloadError, match="not a regular file"):
        discover([], ["."])


def test_a_link_that_leads_nowhere_is_not_passed_over(in_folder):
    (in_folder / "gone.py").symlink_to("nowhere.py")
    with pytest.raises(WorkloadError, match=r"cannot read gone\.py: .*correct the path"):
        discover([], ["."])


def test_a_folder_that_cannot_be_listed_is_an_error(in_folder):
    with pytest.raises(WorkloadError, match=r"cannot read the folder .*name another"):
        discover_folder(in_folder / "missing", bundled=False)


def test_a_path_that_the_evidence_cannot_hold_is_an_error(in_folder):
    path = write(in_folder / os.fsdecode(b"caf\xe9.py"))
    with pytest.raises(WorkloadError, match=r"not UTF-8.*rename it"):
        discover([], [path])


# --------------------------------------------------------------------------------------- broken files


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (f"{WORKLOAD}\ndef (:\n", r"broken\.py:17 is not valid Python: invalid syntax; correct it"),
        ("x = 1\0", r"broken\.py.* is not valid Python: .*null"),
        ("# coding: no-such-encoding\n", r"is not valid Python: .*encoding"),
        (f"x = {'-' * 100_000}1\n", r"broken\.py.* is not valid Python: .*correct it"),
        ("#" * (FILE_CAP_BYTES + 1), r"is larger than 1048576 bytes"),
        (f"if True:\n    pass\n{WORKLOAD}{WORKLOAD}", r"broken\.py:\d+: class Workload is defined a second time.*keep"),
        (
            "class Workload:\n    def setup(self, device): ...\n",
            r"broken\.py:1: .*no method step and no state; .*offers",
        ),
        (workload("variants = make()"), r"broken\.py:2: variants .*once, as a literal"),
        (workload("variants = ('a',)\n    variants += ('b',)"), r"broken\.py:3: variants .*once, as a literal"),
        (workload("variants, other = ('a',), 1"), r"broken\.py:2: variants .*once, as a literal"),
        (workload("if True:\n        variants = ('a',)"), r"broken\.py:3: variants .*once, as a literal"),
        (workload("def variants(self): ..."), r"broken\.py:2: variants .*once, as a literal"),
        (workload("from os import name as refused"), r"broken\.py:2: refused .*once, as a literal"),
        (workload("variants = ()"), r"broken\.py:2: variants must be a tuple of words"),
        (workload("variants = 'word'"), r"variants must be a tuple of words"),
        (workload("variants = None"), r"variants must be a tuple of words"),
        (workload("variants = ('a', 1)"), r"variants must be a tuple of words"),
        (workload("variants = ('a-b',)"), r"variants must be a tuple of words"),
        (workload("variants = ('a\\n',)"), r"variants must be a tuple of words"),
        (workload("variants = ('a', 'b', 'a')"), r"broken\.py:2: variant a is named twice; name each once"),
        (workload("refused = {'cuda': 1}"), r"broken\.py:2: refused must map a device type"),
        (workload("refused = {'cuda:0': 'source'}"), r"refused must map|which is no variant"),
        (workload("refused = {'cuda': ''}"), r"refused must map a device type"),
        (workload("refused = {'cuda': 'two\\nlines'}"), r"refused must map a device type"),
        (workload("refused = {'cuda': '\\ud800'}"), r"refused must map a device type"),
        (workload("refused = ['cuda']"), r"refused must map a device type"),
        (workload("refused = {[]: 1}"), r"refused .*once, as a literal"),
        (
            workload("variants = ('a',)\n    refused = {'b': {'cuda': 'x'}}"),
            r"broken\.py:3: refused names 'b'.*correct",
        ),
    ],
)
def test_a_broken_file_is_an_error_that_names_it_also_among_good_ones(own, content, words):
    write(own / "broken.py", content)
    for selection in ([], ["adds"]):
        with pytest.raises(WorkloadError, match=words):
            discover(selection, [own])


def test_a_file_that_cannot_be_read_is_an_error(in_folder):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    write(in_folder / "adds.py").chmod(0)
    with pytest.raises(WorkloadError, match=r"cannot read adds\.py: Permission denied; correct"):
        discover([], ["."])


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        ("x = 1\n", r"repro_audit/workload\.py says what it must offer"),
        ("class workload:\n    pass\n", r"did you mean its class workload\?"),
        ("from .model import Net as Workload\n", r"it imports Workload from \.model: name the file"),
    ],
)
def test_a_file_named_directly_must_define_the_class(in_folder, content, advice):
    write(in_folder / "model.py", content)
    with pytest.raises(WorkloadError, match=rf"model\.py has no class Workload; {advice}"):
        discover([], ["model.py"])


# ------------------------------------------------------------------------------------- declarations


@pytest.mark.parametrize(
    "content",
    [
        f"class Base:{METHODS}\nclass Workload(Base):\n    pass\n",
        "import abc\nclass Workload(metaclass=abc.ABCMeta):\n    pass\n",
        "class Workload:\n    setup = step = state = lambda self, *rest: 0.0\n",
        f"try:\n    import numpy\nfinally:\n    {WORKLOAD.replace(chr(10), chr(10) + '    ')}\n",
        f"\ufeff{WORKLOAD}",
        f"# coding: latin-1\n{WORKLOAD}",
        workload("variants: tuple[str, ...]"),
        workload("x = 1") + "\n    def helper(self):\n        variants = refused = make()\n",
    ],
)
def test_other_ways_to_write_a_workload_are_understood(in_folder, content):
    write(in_folder / "other.py", content)
    assert names(discover([], ["other.py"])) == ["other"]


def test_an_invalid_escape_is_no_business_of_the_audit(in_folder):
    write(in_folder / "escape.py", f"{WORKLOAD}\nPATTERN = '\\d'\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert names(discover([], ["escape.py"])) == ["escape"]


@pytest.mark.parametrize(
    ("refused", "expected"),
    [
        ("{}", {"max": {}, "average": {}}),
        ("{'cuda': 'https://x'}", {"max": {"cuda": "https://x"}, "average": {"cuda": "https://x"}}),
        ("{'max': {'cuda': 'https://x'}}", {"max": {"cuda": "https://x"}, "average": {}}),
    ],
)
def test_refusals_are_declared_for_all_variants_or_by_variant(in_folder, refused, expected):
    write(in_folder / "pool.py", workload(f"variants = ['max', 'average']\n    refused: dict = {refused}"))
    assert {source.variant: source.refused for source in discover([], ["pool.py"])} == expected


def test_a_summary_that_utf_8_cannot_hold_is_written_with_escapes(in_folder):
    write(in_folder / "odd.py", WORKLOAD.replace("Adds", "\\ud800"))
    assert discover([], ["odd.py"])[0].summary == "\\ud800 numbers."


# ------------------------------------------------------------------------------------- module:Class


@pytest.fixture
def package(in_folder):
    """Packages in the current directory that must not be imported: importing any of them fails."""
    stop = "raise SystemExit('it was imported')\n"
    write(in_folder / "mypackage" / "__init__.py", f"{stop}from mypackage.models import Net\n")
    write(in_folder / "mypackage" / "models.py", f'{stop}\n\nclass Net:\n    """A net."""\n{METHODS}')
    write(in_folder / "mypackage" / "many.py", f'{stop}\n\nclass Net:\n    variants = ("small", "large")\n{METHODS}')
    write(in_folder / "spaces" / "inner" / "deep.py", f"{stop}{WORKLOAD}")
    return in_folder


def test_a_class_of_a_module_is_found_without_importing_anything(package, bundled):
    before = set(sys.modules)
    (source,) = discover(["mypackage.models:Net"], [], bundled)
    assert (source.name, source.module, source.class_name) == ("mypackage.models:Net", "mypackage.models", "Net")
    assert source.path == str(package / "mypackage" / "models.py")
    assert source.summary == "A net."
    assert not {name for name in set(sys.modules) - before if name.startswith("mypackage")}


def test_a_module_may_lie_in_namespace_packages(package, bundled):
    (source,) = discover(["spaces.inner.deep:Workload"], [], bundled)
    assert source.path == str(package / "spaces" / "inner" / "deep.py")


def test_a_module_may_be_an_installed_one(bundled):
    (source,) = discover(["repro_audit.canaries.unseeded:Workload"], [], bundled)
    assert source.path == str(canary_folder() / "unseeded.py")


def test_a_class_of_a_module_has_its_variants_and_one_can_be_chosen(package, bundled):
    both = ["mypackage.many:Net-small", "mypackage.many:Net-large"]
    assert names(discover(["mypackage.many:Net"], [], bundled)) == both
    assert names(discover(["mypackage.many:Net-large", "gather"], [], bundled)) == ["gather", both[1]]
    with pytest.raises(WorkloadError, match=r"no variant 'huge'; it has small, large"):
        discover(["mypackage.many:Net-huge"], [], bundled)


def test_a_function_of_a_module_is_a_workload_and_a_file_needs_a_class(package, bundled):
    (package / "mypackage" / "training.py").write_text('def train(device):\n    """Fits."""\n    return 1.0\n')
    [source] = discover(["mypackage.training:train"], [], bundled)
    assert (source.name, source.class_name, source.summary) == ("mypackage.training:train", "train", "Fits.")
    with pytest.raises(WorkloadError, match="has no class Workload"):
        discover([], [package / "mypackage" / "training.py"], bundled)


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (
            "mypackage:Net",
            r"defines no class and no function 'Net'; it imports Net from mypackage\.models: name the file",
        ),
        ("mypackage.models:net", r"did you mean its class Net\?"),
        ("mypackage.models:", r"defines no class and no function ''; name the module"),
        ("mypackage.missing:Net", r"no module mypackage\.missing: .*check the name"),
        ("mypackage.models.deeper:Net", r"no module mypackage\.models\.deeper"),
        (
            "no_such_package.models:Net",
            r"no module no_such_package.models: no_such_package is neither in the current directory",
        ),
        ("my-package:Net", r"'my-package' is no module name"),
        (".models:Net", r"'.models' is no module name"),
        ("sys:Net", r"module sys has no Python source file"),
        ("spaces:Net", r"module spaces has no Python source file"),
    ],
)
def test_a_class_of_a_module_that_is_not_there_is_an_error_that_says_what_to_do(package, bundled, item, words):
    with pytest.raises(WorkloadError, match=words):
        discover([item], [], bundled)
