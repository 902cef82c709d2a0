"""What is left open on the command line, and who fills it."""

import json
import os

import pytest

from repro_audit import cli
from repro_audit.configuration import KEYS, configure
from repro_audit.errors import UsageError
from repro_audit.option_types import COMMAND_KEYS
from repro_audit.records import Waiver


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def configured(*words, **environ):
    arguments = cli.build_parser().parse_args(words or ["run"])
    configure(arguments, environ)
    return arguments


def write(folder, text, name="pyproject.toml"):
    (folder / name).write_text(text)


TABLE = "[tool.repro_audit]\n"

WAIVER = """
[[tool.repro_audit.waivers]]
workload = "put"
device = "cuda:*"
op = "put_"
reason = "documented"
who = "Ada Lovelace"
until = {until}
"""


# ------------------------------------------------------------------------------------------- who wins


def test_without_configuration_there_are_the_defaults(folder):
    found = configured()
    assert (found.seed, found.steps, found.device, found.workloads, str(found.output)) == (1234, 2, [], [], "reports")
    assert (found.configuration.file, found.waivers) == (None, ())
    assert set(found.configuration.origins.values()) == {"default"}


@pytest.mark.parametrize(
    ("words", "environ", "text", "expected"),
    [
        (["--seed", "1"], {"REPRO_AUDIT_SEED": "2"}, "seed = 3", (1, "command line")),
        ([], {"REPRO_AUDIT_SEED": "2"}, "seed = 3", (2, "environment")),
        ([], {}, "seed = 3", (3, "file")),
        ([], {}, "", (1234, "default")),
    ],
)
def test_command_line_before_environment_before_file_before_default(folder, words, environ, text, expected):
    write(folder, TABLE + text)
    found = configured("run", *words, **environ)
    assert (found.seed, found.configuration.origins["seed"]) == expected
    assert json.loads(found.configuration.values["seed"]) == expected[0]


def test_every_key_can_be_said_everywhere(folder):
    values = {
        "workloads": ["a.py", "b"],
        "select": ["mlp"],
        "devices": ["cpu"],
        "required-devices": ["cuda"],
        "steps": 3,
        "seed": 0,
        "repeats": 4,
        "timeout": 1.5,
        "budget": 2,
        "isolation": "exec",
        "cublas-workspace": ":16:8",
        "output": "archives",
    }
    assert values.keys() == KEYS.keys()
    write(folder, TABLE + "\n".join(f"{key} = {json.dumps(value)}" for key, value in values.items()))
    of_file = configured()
    os.remove("pyproject.toml")
    write(folder, "\n".join(f"{key}: {json.dumps(value)}" for key, value in values.items()), "repro_audit.yaml")
    of_yaml = configured()
    os.remove("repro_audit.yaml")
    environ = {
        "REPRO_AUDIT_" + key.upper().replace("-", "_"): (os.pathsep if key == "workloads" else ",").join(value)
        if isinstance(value, list)
        else str(value)
        for key, value in values.items()
    }
    of_environment = configured(**environ)
    for key in KEYS.values():
        of_all = [getattr(one, key.dest) for one in (of_file, of_yaml, of_environment)]
        if key.name in ("workloads", "output"):
            of_all = [[folder / path for path in (one if isinstance(one, list) else [one])] for one in of_all]
        assert of_all[0] == of_all[1] == of_all[2], key.name
    assert (of_file.timeout, of_file.budget, of_file.require_device) == (1.5, 2.0, ["cuda:0"])
    assert set(of_environment.configuration.origins.values()) == {"environment"}


def test_every_key_of_a_command_is_one():
    assert {key for keys in COMMAND_KEYS.values() for key in keys} == KEYS.keys()


def test_a_table_of_a_command_is_for_that_command_alone(folder):
    write(folder, TABLE + "timeout = 5\n[tool.repro_audit.script]\ntimeout = 50\nrepeats = 9")
    assert configured("run").timeout == 5
    found = configured("script", "train.py")
    assert (found.timeout, found.repeats) == (50, 9)
    assert configured("vary").repeats == 1


def test_names_of_a_file_do_not_select_from_the_paths_of_the_command_line(folder):
    write(folder, TABLE + 'select = ["mlp"]\nworkloads = ["mine"]\ndevices = ["cpu"]')
    assert configured().selection == ["mlp"]
    assert configured("run", "--workloads", "x.py").selection == []
    assert configured("run", "cumsum").workloads == [folder / "mine"]
    found = configured("run", "--require-device", "cuda")
    assert (found.device, found.require_device) == ([], ["cuda:0"])


def test_a_script_takes_no_workloads(folder):
    write(folder, TABLE + 'select = ["mlp"]\ndevices = ["cpu"]\nsteps = 5')
    found = configured("vary", "--script", "train.py")
    assert (found.selection, found.device) == ([], [])
    assert configured("vary").selection == ["mlp"]
    assert configured("script", "train.py").steps is None  # which is about what is traced


# ------------------------------------------------------------------------------------------- which file


def test_the_nearest_file_above_is_read_and_its_paths_are_meant_from_there(folder, monkeypatch):
    write(folder, TABLE + 'output = "archives"\nworkloads = ["mine", "/abs/other"]')
    inner = folder / "a" / "b"
    inner.mkdir(parents=True)
    write(inner.parent, "[tool.ruff]\n")
    monkeypatch.chdir(inner)
    found = configured()
    assert found.output == folder / "archives"
    assert list(map(str, found.workloads)) == [str(folder / "mine"), "/abs/other"]
    assert found.configuration.file == str(folder / "pyproject.toml")
    assert found.configuration.sha256.startswith("sha256:")


def test_a_file_can_be_named_or_passed_by(folder):
    write(folder, TABLE + "seed = 3")
    write(folder, "seed: 4", "other.yml")
    write(folder, TABLE + "seed = 5", "more.toml")
    assert configured("run", "--config", "other.yml").seed == 4
    assert configured("run", "--config", "more.toml").seed == 5
    assert configured(REPRO_AUDIT_CONFIG="other.yml").seed == 4
    assert configured("run", "--config", "more.toml", REPRO_AUDIT_CONFIG="other.yml").seed == 5
    assert configured("run", "--no-config").seed == 1234


def test_two_files_in_one_folder_are_one_too_many(folder):
    write(folder, TABLE)
    write(folder, "", "repro_audit.yaml")
    with pytest.raises(UsageError, match="there are two configurations"):
        configured()


# ------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sede = 3", "'sede', which there is not; did you mean seed?"),
        ("cublas_workspace = ':16:8'", "did you mean cublas-workspace?"),
        ("zzz = 3", "there are workloads, select"),
        ("[tool.repro_audit.script]\nsteps = 2", "in its table script a key 'steps', which there is not"),
        ("[tool.repro_audit.scripts]\nrepeats = 2", "did you mean script?"),
        ("script = 2", "script in .* is no table"),
        ("seed = -1", "seed in .*pyproject.toml: '-1' is not a whole number"),
        ("seed = true", "no text or number"),
        ("seed = [1]", "no text or number"),
        ("repeats = 1.5", "'1.5' is not a whole number of at least 1"),
        ("repeats = 0", "'0' is not a whole number of at least 1"),
        ("timeout = nan", "'nan' is not a number of seconds"),
        ('devices = "cpu"', "is not a list"),
        ('devices = ["cqu"]', "did you mean cpu?"),
        ('isolation = "thread"', "'thread' is none of fork, exec"),
        ('output = ""', "is empty"),
        ("output = 3", "write it as text, in quotes"),
        ("workloads = [3]", "write it as text, in quotes"),
        ("seed = ", "cannot be read"),
        ("seed = 1\nseed = 2", "cannot be read"),
        ("waivers = 3", "waivers in .* is no list of tables"),
        ("waivers = [3]", "waiver 1 in .* is no table"),
        (WAIVER.format(until='"soon"'), "ends on 'soon', which is no day written as YYYY-MM-DD"),
        (WAIVER.format(until="2027-01-01T10:00:00"), "which is no day"),
        (WAIVER.format(until="3"), "until of waiver 1 .* write it as text"),
        (WAIVER.format(until="2027-01-01").replace("who", "whom"), "'whom', which there is not; did you mean who?"),
        (WAIVER.format(until="2027-01-01").replace('reason = "documented"', ""), "does not say reason; add it"),
        (WAIVER.format(until="2027-01-01").replace('"documented"', '" "'), "waiver 1 has no reason"),
    ],
)
def test_what_is_not_valid_is_refused_with_its_place(folder, text, message):
    write(folder, TABLE + text)
    with pytest.raises(UsageError, match=message):
        configured()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 1\nseed: 2", "the key 'seed' stands twice"),
        ("- seed", "no mapping"),
        ("seed: &a [1]\nrepeats: *a", "line 2 has an alias"),
        ("".join(f"k{n}: 1\n" for n in range(60_000)), "has a key 'k0'"),
        ("k: 1\n" * 60_000, "the key 'k' stands twice"),
        ("seed: !!python/object:os.system {}", "cannot be read"),
        ("seed: [", "cannot be read"),
        ("a: " + "[" * 5000, "nested too deeply|cannot be read"),
        ("seed: 1\n" + "#" * (1 << 20), "larger than 1048576 bytes"),
        ("sede: 1", "did you mean seed?"),
    ],
)
def test_yaml_that_is_none_of_ours_is_refused(folder, text, message):
    write(folder, text, "repro_audit.yaml")
    with pytest.raises(UsageError, match=message):
        configured()


def test_bytes_that_are_no_text_are_refused(folder):
    (folder / "repro_audit.yaml").write_bytes(b"seed: 1 # \xff")
    with pytest.raises(UsageError, match="cannot be read"):
        configured()


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"REPRO_AUDIT_SEEDS": "1"}, "did you mean REPRO_AUDIT_SEED?"),
        ({"REPRO_AUDIT_SEED": "x"}, "REPRO_AUDIT_SEED in the environment: 'x' is not a whole number"),
        ({"REPRO_AUDIT_DEVICES": "cpu,"}, "REPRO_AUDIT_DEVICES in the environment is empty"),
        ({"REPRO_AUDIT_CONFIG": "gone.yaml"}, "cannot read the configuration gone.yaml"),
    ],
)
def test_the_environment_is_held_to_the_same(folder, environ, message):
    with pytest.raises(UsageError, match=message):
        configured(**environ)


def test_a_named_file_without_a_table_is_an_error(folder):
    write(folder, "[tool.ruff]\n")
    with pytest.raises(UsageError, match=r"has no table \[tool.repro_audit\]"):
        configured("run", "--config", "pyproject.toml")
    assert configured().configuration.file is None


def test_errors_end_a_command_with_2_and_no_archive(folder, capsys):
    write(folder, TABLE + "sede = 3")
    assert cli.main(["run"]) == 2
    assert capsys.readouterr().err.endswith("did you mean seed?\n")
    assert not (folder / "reports").exists()


# ------------------------------------------------------------------------------------------- waivers


@pytest.mark.parametrize("until", ["2027-01-01", '"2027-01-01"'])
def test_waivers_are_read(folder, until):
    write(folder, TABLE + WAIVER.format(until=until))
    waiver = Waiver(
        workload="put", device="cuda:*", op="put_", reason="documented", who="Ada Lovelace", until="2027-01-01"
    )
    assert configured().waivers == (waiver,)
    assert configured("run", "--no-config").waivers == ()


def test_waivers_of_yaml_are_read(folder):
    write(
        folder,
        "waivers:\n- {workload: put, device: cpu, op: '*', reason: why, who: Ada, until: 2027-01-01}\n",
        "repro_audit.yaml",
    )
    assert configured().waivers[0].until == "2027-01-01"


REFUSED = """\
\"\"\"Puts values at the same place.\"\"\"
import torch


class Workload:
    def setup(self, device):
        self.values = torch.zeros(8, device=device)

    def step(self):
        self.values.put_(torch.tensor([1, 1]), torch.ones(2), accumulate=False)
        return self.values.sum()

    def state(self):
        return self.values
"""


def test_an_accepted_finding_is_waived_in_table_and_evidence_and_fails_no_audit(folder, capsys):
    write(folder, REFUSED, "putting.py")
    arguments = ["run", "--workloads", "putting.py", "--device", "cpu", "--quick"]
    write(folder, TABLE + WAIVER.format(until="2999-01-01").replace('"put"', '"putting"').replace("cuda:*", "cpu"))
    assert cli.main([*arguments, "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["configuration"]["file"] == str(folder / "pyproject.toml")
    assert data["cases"][0]["verdict"] == "REFUSED"
    assert data["cases"][0]["waivers"][0]["who"] == "Ada Lovelace"
    assert data["summary"]["counts"]["PASS"] == 0
    [archive] = (folder / "reports").iterdir()
    assert cli.main(["show", str(archive)]) == 0
    assert "WAIVED" in capsys.readouterr().out
    assert cli.main(["verify", str(archive)]) == 0
    write(folder, TABLE + WAIVER.format(until="2020-01-01").replace('"put"', '"putting"').replace("cuda:*", "cpu"))
    assert cli.main(arguments) == 1
