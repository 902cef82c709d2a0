import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from repro_audit.worker.environment import absence_reason, cuda_device, devices, driver_cuda, torch_facts

PROPERTIES = SimpleNamespace(
    name="NVIDIA H100 80GB HBM3", major=9, minor=0, total_memory=85_000_000_000, multi_processor_count=132
)


def test_the_facts_of_pytorch_are_texts_and_name_its_build_and_threads():
    facts = torch_facts()
    assert all(isinstance(value, str) and value for value in facts.values())
    assert facts["version"] == torch.__version__
    assert facts["git_version"] == torch.version.git_version
    assert facts["num_threads"] == str(torch.get_num_threads())
    assert "PyTorch built with" in facts["config"]
    assert "get_num_threads" in facts["parallel_info"]


@pytest.mark.skipif(torch.backends.cuda.is_built(), reason="this PyTorch was built with CUDA")
def test_a_build_without_cuda_says_so_and_has_a_cpu():
    present, absent = devices()
    assert [device.name for device in present] == ["cpu"]
    assert "threads" in present[0].description
    assert absent == {"cuda": "this PyTorch was built without CUDA"}


@pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="this PyTorch was built without CUDA")
def test_hidden_devices_are_absent_for_that_reason():
    code = "import json; from repro_audit.worker.environment import devices; print(json.dumps(devices()[1]))"
    found = subprocess.run(
        [sys.executable, "-c", code], env={"CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True, check=True
    )
    assert "CUDA_VISIBLE_DEVICES=''" in json.loads(found.stdout)["cuda"]


@pytest.mark.cuda
@pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="this PyTorch was built without CUDA")
def test_every_cuda_device_is_described():
    code = (
        "import msgspec; from repro_audit.worker.environment import devices; "
        "print(msgspec.json.encode(devices()).decode())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    (_, *present), absent = json.loads(found.stdout)
    if absent:
        pytest.skip(absent["cuda"])
    assert [device["name"] for device in present] == [f"cuda:{index}" for index in range(len(present))]
    assert all(device["details"]["driver_cuda"] != "unknown" for device in present)


def test_a_reason_is_the_first_words_of_pytorch_and_the_variable_that_hides_devices():
    error = RuntimeError("\nFound no NVIDIA driver on your system.\nPlease check")
    assert absence_reason(error, {}) == "Found no NVIDIA driver on your system."
    hidden = absence_reason(RuntimeError("No CUDA GPUs are available"), {"CUDA_VISIBLE_DEVICES": ""})
    assert hidden == "No CUDA GPUs are available (CUDA_VISIBLE_DEVICES='')"


def test_an_error_without_words_is_named_by_its_type():
    assert absence_reason(AssertionError(), {}) == "AssertionError"


def test_a_cuda_device_is_described_whatever_properties_a_release_has():
    device = cuda_device(1, PROPERTIES, {"driver": "550.54"})
    assert (device.name, device.description) == ("cuda:1", "NVIDIA H100 80GB HBM3")
    assert device.details == {
        "compute_capability": "9.0",
        "memory_bytes": "85000000000",
        "multiprocessors": "132",
        "driver": "550.54",
    }
    more = cuda_device(1, SimpleNamespace(**vars(PROPERTIES), L2_cache_size=52_428_800, uuid="abc"), {})
    assert (more.details["l2_cache_size"], more.details["uuid"]) == ("52428800", "abc")


@pytest.mark.parametrize("library", ["libno_such_driver.so.1", "libc.so.6"])
def test_a_driver_that_does_not_tell_its_version_is_unknown(library):
    assert driver_cuda(library) == "unknown"
