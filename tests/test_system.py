import os
from pathlib import Path

import msgspec
import pytest

from repro_audit import __version__
from repro_audit.records import Environment, WorkerEnvironment
from repro_audit.system import cpu_quota, parent_environment, recorded_variables


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


# ----------------------------------------------------------------------------------------- variables


@pytest.mark.parametrize(
    "name",
    [
        "ATEN_CPU_CAPABILITY",
        "CUBLAS_WORKSPACE_CONFIG",
        "CUDA_LAUNCH_BLOCKING",
        "CUDA_VISIBLE_DEVICES",
        "GLIBC_TUNABLES",
        "KMP_AFFINITY",
        "LD_PRELOAD",
        "MALLOC_PERTURB_",
        "MKL_CBWR",
        "NCCL_PROTO",
        "NVIDIA_TF32_OVERRIDE",
        "OMP_NUM_THREADS",
        "ONEDNN_MAX_CPU_ISA",
        "OPENBLAS_NUM_THREADS",
        "PYTHONHASHSEED",
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF",
        "TORCHINDUCTOR_DETERMINISTIC",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    ],
)
def test_a_variable_that_bits_can_depend_on_is_recorded(name):
    assert recorded_variables({name: "1"}) == {name: "1"}


@pytest.mark.parametrize(
    "name",
    [
        "HOME",
        "PATH",
        "USER",
        "AWS_SECRET_ACCESS_KEY",
        "HF_TOKEN",
        "MYOMP_NUM_THREADS",
        "NCCL_AUTH_TOKEN",
        "OMP_PASSWORD",
        "TORCH_API_KEY",
        "TORCHINDUCTOR_CREDENTIALS",
        "TORCH_client_secret",
    ],
)
def test_no_other_variable_is_recorded_and_never_a_secret(name):
    assert recorded_variables({name: "1"}) == {}


def test_a_login_in_an_address_is_left_out():
    recorded = recorded_variables({"TORCHINDUCTOR_CACHE": "redis://me:hunter2@host:1/x"})
    assert recorded == {"TORCHINDUCTOR_CACHE": "redis://***@host:1/x"}


def test_a_value_that_is_not_utf_8_is_recorded_with_escapes():
    recorded = recorded_variables({"LD_PRELOAD": os.fsdecode(b"/caf\xe9.so")})
    assert recorded == {"LD_PRELOAD": "/caf\\udce9.so"}
    assert msgspec.json.decode(msgspec.json.encode(recorded)) == recorded


def test_variables_come_in_the_order_of_their_names():
    assert list(recorded_variables({"TZ": "UTC", "LANG": "C", "OMP_NUM_THREADS": "2"})) == [
        "LANG",
        "OMP_NUM_THREADS",
        "TZ",
    ]


# ------------------------------------------------------------------------------------------- machine


def test_the_processor_quota_is_the_smallest_of_all_groups_that_bind(tmp_path):
    write(tmp_path / "proc/self/cgroup", "0::/outer/inner\n")
    write(tmp_path / "sys/fs/cgroup/outer/cpu.max", "150000 100000\n")
    write(tmp_path / "sys/fs/cgroup/outer/inner/cpu.max", "400000 100000\n")
    assert cpu_quota(tmp_path) == "1.5"


def test_the_processor_quota_of_a_container_and_of_the_older_control_groups_is_read(tmp_path):
    write(tmp_path / "new/proc/self/cgroup", "0::/\n")
    write(tmp_path / "new/sys/fs/cgroup/cpu.max", "200000 100000\n")
    assert cpu_quota(tmp_path / "new") == "2"
    write(tmp_path / "old/proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/0123\n")
    write(tmp_path / "old/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n")
    write(tmp_path / "old/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert cpu_quota(tmp_path / "old") == "0.5"


@pytest.mark.parametrize("limit", ["max 100000", "-1 100000", "100 0", "", "nonsense"])
def test_no_quota_is_no_fact(tmp_path, limit):
    write(tmp_path / "proc/self/cgroup", "0::/\n")
    write(tmp_path / "sys/fs/cgroup/cpu.max", limit)
    assert cpu_quota(tmp_path) == ""
    assert cpu_quota(tmp_path / "nothing") == ""


def test_the_whole_environment_can_be_written_and_read_again():
    worker = WorkerEnvironment(torch={"version": "2"}, devices=(), absent_devices={"cuda": "none"}, flags={"a": "b"})
    seen = parent_environment(worker, ())
    assert msgspec.json.decode(msgspec.json.encode(seen), type=Environment) == seen
    assert seen.torch == worker.torch
    assert seen.packages["repro-audit"] == __version__
    assert {"torch", "msgspec"} <= set(seen.packages)
    assert {"version", "implementation"} <= set(seen.python)
    assert {"system", "release", "machine", "logical_cores", "usable_cores"} <= set(seen.system)
    assert all(value for value in seen.system.values())
