import pytest

from repro_audit.errors import UsageError
from repro_audit.records import CublasWorkspace
from repro_audit.settings import parse_device, resolve_cublas_workspace, worker_environment

NAME = "CUBLAS_WORKSPACE_CONFIG"


@pytest.mark.parametrize(
    ("option", "environ", "value", "source"),
    [
        (None, {}, ":4096:8", "default"),
        (None, {NAME: ":16:8"}, ":16:8", "environment"),
        (None, {NAME: ":4096:8"}, ":4096:8", "environment"),
        (":16:8", {}, ":16:8", "option"),
        (":16:8", {NAME: ":4096:8"}, ":16:8", "option"),
        (":4096:8", {NAME: "nonsense"}, ":4096:8", "option"),
        ("inherit", {NAME: ":0:0"}, ":0:0", "inherit"),
        ("inherit", {}, None, "inherit"),
    ],
)
def test_whose_value_the_runs_see(option, environ, value, source):
    assert resolve_cublas_workspace(option, environ) == CublasWorkspace(value=value, source=source)


@pytest.mark.parametrize("value", ["", ":0:0", "4096:8", ":4096:8 "])
def test_an_invalid_value_in_the_environment_is_an_error_that_names_it_and_the_way_out(value):
    with pytest.raises(UsageError, match=r":4096:8 and :16:8.*--cublas-workspace inherit") as caught:
        resolve_cublas_workspace(None, {NAME: value})
    assert repr(value) in str(caught.value)


def test_the_workers_see_the_users_environment_and_the_resolved_value():
    environ = {"PATH": "/bin", NAME: ":16:8"}
    assert worker_environment(environ, CublasWorkspace(value=":4096:8", source="option")) == {
        "PATH": "/bin",
        NAME: ":4096:8",
    }
    assert worker_environment(environ, CublasWorkspace(value=None, source="inherit")) == {"PATH": "/bin"}


@pytest.mark.parametrize(
    ("text", "device"), [("cpu", "cpu"), ("cuda", "cuda:0"), ("cuda:0", "cuda:0"), ("cuda:12", "cuda:12")]
)
def test_devices_have_one_name_each(text, device):
    assert parse_device(text) == device


@pytest.mark.parametrize("text", ["", "gpu", "CUDA", "cuda:", "cuda:-1", "cuda:01", "cpu:0", "mps", "cuda:99999"])
def test_what_is_no_device_is_an_error_that_names_it(text):
    with pytest.raises(UsageError, match="name cpu, cuda or cuda:N"):
        parse_device(text)


def test_a_near_miss_of_a_device_is_answered_with_a_guess():
    with pytest.raises(UsageError, match=r"'CUDA' .*did you mean cuda\?"):
        parse_device("CUDA")
    with pytest.raises(UsageError, match=r"^'mps' is no device that can be audited; name"):
        parse_device("mps")


def test_an_option_that_is_no_choice_is_an_error_that_lists_the_choices():
    with pytest.raises(UsageError, match=r"':8:8' is not valid; choose :4096:8, :16:8, inherit"):
        resolve_cublas_workspace(":8:8", {})
