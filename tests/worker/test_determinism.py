import os
import sys
import time

import pytest
import torch

from repro_audit.records import Mode
from repro_audit.worker.determinism import Watch, read_flags

VARIABLE = "CUBLAS_WORKSPACE_CONFIG"
SETTERS = (
    "_set_deterministic_algorithms",
    "_set_deterministic_fill_uninitialized_memory",
    "_set_cudnn_deterministic",
    "_set_cudnn_benchmark",
)


@pytest.fixture(autouse=True)
def workspace(monkeypatch):
    monkeypatch.setenv(VARIABLE, ":4096:8")


@pytest.fixture
def strict(arming):
    arming(Mode.STRICT)


def watched(workload, mode=Mode.STRICT):
    """The breaches of a run whose only step, step 1 of repeat 0, is this."""
    with Watch(mode) as watch:
        watch.check(0, 1)
        workload()
        watch.check(0, 1)
    return watch.breaches


def settings(breaches):
    return [(breach.setting, breach.expected, breach.found) for breach in breaches]


# ---------------------------------------------------------------------------------------------- arming


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.DEFAULT])
def test_arming_sets_everything_that_the_mode_demands(arming, mode):
    torch.backends.cudnn.benchmark = True
    arming(mode)
    warn_only = mode is Mode.WARN_ONLY
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.is_deterministic_algorithms_warn_only_enabled() is warn_only
    assert torch.utils.deterministic.fill_uninitialized_memory is (mode is not Mode.NO_FILL)
    assert (torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark) == (True, False)
    assert torch.is_warn_always_enabled() is warn_only
    assert watched(lambda: None, mode) == ()


def test_default_mode_arms_nothing_and_watches_nothing(arming):
    before = read_flags()
    arming(Mode.DEFAULT)
    assert read_flags() == before
    assert watched(lambda: torch.use_deterministic_algorithms(True), Mode.DEFAULT) == ()


def test_arming_and_reading_do_not_touch_cuda(arming):
    arming(Mode.STRICT)
    read_flags()
    assert not torch.cuda.is_initialized()


# ---------------------------------------------------------------------------------------------- reading back


def test_every_flag_is_read_back_as_text(strict):
    flags = read_flags()
    assert all(isinstance(value, str) for value in flags.values())
    assert not [name for name, value in flags.items() if value.startswith("unreadable")]
    expected = {
        "deterministic_algorithms": "True",
        "deterministic_algorithms.warn_only": "False",
        "fill_uninitialized_memory": "True",
        "cudnn.enabled": "True",
        "cudnn.deterministic": "True",
        "cudnn.benchmark": "False",
        "cudnn.allow_tf32": "True",
        "float32_matmul_precision": "highest",
        "cuda.matmul.allow_tf32": "False",
        "cuda.matmul.allow_fp16_reduced_precision_reduction": "True",
        "cuda.matmul.allow_bf16_reduced_precision_reduction": "True",
        "scaled_dot_product_attention.flash": "True",
        "scaled_dot_product_attention.mem_efficient": "True",
        "scaled_dot_product_attention.math": "True",
        "scaled_dot_product_attention.cudnn": "True",
        "mkldnn.enabled": "True",
        "flush_denormal": "False",
        "default_dtype": "torch.float32",
        "num_threads": str(torch.get_num_threads()),
        "anomaly_mode": "False",
        "grad_enabled": "True",
        "autocast.cpu": "False",
        VARIABLE: ":4096:8",
    }
    assert {name: flags.get(name) for name in expected} == expected


def test_flags_follow_what_is_set(strict, monkeypatch):
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        flags = read_flags()
    assert (flags["grad_enabled"], flags["autocast.cpu"], flags["autocast.cpu.dtype"]) == (
        "False",
        "True",
        "torch.float16",
    )
    assert (flags[VARIABLE], flags["NVIDIA_TF32_OVERRIDE"]) == ("not set", "0")


def test_flushing_of_denormal_numbers_is_noticed():
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU does not flush denormal numbers")
    try:
        assert read_flags()["flush_denormal"] == "True"
    finally:
        torch.set_flush_denormal(False)
    assert read_flags()["flush_denormal"] == "False"


def test_a_flag_that_pytorch_refuses_to_tell_stands_there_with_its_error():
    # The older and the newer settings of TF32 may contradict each other; reading the older one then raises.
    precision, matmul = torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.fp32_precision
    try:
        torch.set_float32_matmul_precision("high")
        torch.backends.cuda.matmul.fp32_precision = "ieee"
        flags = read_flags()
    finally:
        torch.backends.cuda.matmul.fp32_precision = matmul
        torch.set_float32_matmul_precision(precision)
    assert flags["cuda.matmul.allow_tf32"].startswith("unreadable: ")
    assert flags["cuda.matmul.fp32_precision"] == "ieee"
    assert not read_flags()["cuda.matmul.allow_tf32"].startswith("unreadable")


# ---------------------------------------------------------------------------------------------- breaches


def switched_and_restored(switch, restore):
    def workload():
        switch()
        restore()

    return workload


def set_cudnn(name, value):
    setattr(torch.backends.cudnn, name, value)


@pytest.mark.parametrize(
    ("switch", "restore", "breach"),
    [
        (
            lambda: torch.use_deterministic_algorithms(False),
            lambda: torch.use_deterministic_algorithms(True),
            ("deterministic_algorithms", "True", "False"),
        ),
        (
            lambda: torch.use_deterministic_algorithms(True, warn_only=True),
            lambda: torch.use_deterministic_algorithms(True),
            ("deterministic_algorithms.warn_only", "False", "True"),
        ),
        (
            lambda: torch.set_deterministic_debug_mode("default"),
            lambda: torch.set_deterministic_debug_mode("error"),
            ("deterministic_algorithms", "True", "False"),
        ),
        (
            lambda: torch._C._set_deterministic_algorithms(False),
            lambda: torch._C._set_deterministic_algorithms(True),
            ("deterministic_algorithms", "True", "False"),
        ),
        (
            lambda: setattr(torch.utils.deterministic, "fill_uninitialized_memory", False),
            lambda: setattr(torch.utils.deterministic, "fill_uninitialized_memory", True),
            ("fill_uninitialized_memory", "True", "False"),
        ),
        (
            lambda: set_cudnn("deterministic", False),
            lambda: set_cudnn("deterministic", True),
            ("cudnn.deterministic", "True", "False"),
        ),
        (
            lambda: set_cudnn("benchmark", True),
            lambda: set_cudnn("benchmark", False),
            ("cudnn.benchmark", "False", "True"),
        ),
        (
            lambda: torch._C._set_cudnn_benchmark(True),
            lambda: torch._C._set_cudnn_benchmark(False),
            ("cudnn.benchmark", "False", "True"),
        ),
    ],
)
@pytest.mark.parametrize("restores", [True, False])
def test_a_setting_that_is_switched_is_seen_with_its_line_even_if_restored_at_once(
    strict, switch, restore, breach, restores
):
    breaches = watched(switched_and_restored(switch, restore if restores else lambda: None))
    assert settings(breaches) == [breach]
    (found,) = breaches
    assert (found.repeat, found.step) == (0, 1)
    assert found.location is not None
    assert found.location.path == __file__


def test_flags_of_cudnn_for_a_block_are_seen(strict):
    def workload():
        with torch.backends.cudnn.flags(enabled=True, benchmark=True):  # the block
            pass

    breaches = watched(workload)
    assert settings(breaches) == [("cudnn.benchmark", "False", "True"), ("cudnn.deterministic", "True", "False")]
    assert all(breach.location.text.endswith("# the block") for breach in breaches)


def test_the_same_line_counts_once_and_another_line_again(strict):
    def workload():
        for _ in range(3):
            torch.use_deterministic_algorithms(False)  # first
        torch.use_deterministic_algorithms(False)  # second
        torch.use_deterministic_algorithms(True)

    assert [breach.location.text.partition("# ")[2] for breach in watched(workload)] == ["first", "second"]


def test_a_setter_that_was_taken_along_before_the_run_is_noticed_at_the_next_check(strict):
    early = torch._C._set_deterministic_algorithms
    (breach,) = watched(lambda: early(False))
    assert (breach.setting, breach.location) == ("deterministic_algorithms", None)


def test_the_first_step_that_saw_a_breach_is_named(strict):
    early = torch._C._set_cudnn_benchmark
    with Watch(Mode.STRICT) as watch:
        watch.check(0, 1)
        early(True)
        watch.check(1, 2)
        watch.check(1, 3)
    assert [(breach.repeat, breach.step) for breach in watch.breaches] == [(1, 2)]


def test_the_compilers_own_setting_is_checked(strict):
    inductor = sys.modules["torch._inductor.config"]
    if not hasattr(inductor, "deterministic"):
        pytest.skip("this PyTorch has no such setting")

    def workload():
        inductor.deterministic = False

    assert settings(watched(workload)) == [("inductor.deterministic", "True", "False")]


@pytest.mark.parametrize("value", [":0:0", "", None])
def test_a_workspace_of_cublas_that_does_not_repeat_is_a_breach(strict, value):
    def workload():
        if value is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = value

    assert settings(watched(workload)) == [(VARIABLE, ":4096:8", str(value))]


def test_the_setters_pass_every_call_on(strict):
    def workload():
        torch.use_deterministic_algorithms(False)
        assert not torch.are_deterministic_algorithms_enabled()
        torch.backends.cudnn.benchmark = True
        assert torch._C._get_cudnn_benchmark()
        with pytest.raises(RuntimeError, match="expects a bool"):
            torch.backends.cudnn.deterministic = "yes"

    assert settings(watched(workload)) == [
        ("deterministic_algorithms", "True", "False"),
        ("cudnn.benchmark", "False", "True"),
    ]


def test_a_warn_only_run_that_is_switched_off_is_a_breach(arming):
    arming(Mode.WARN_ONLY)
    breaches = watched(lambda: torch.use_deterministic_algorithms(False), Mode.WARN_ONLY)
    assert settings(breaches) == [("deterministic_algorithms", "True", "False")]


def test_every_setter_is_the_original_again_afterwards(strict):
    def current():
        cudnn = vars(type(torch.backends.cudnn))
        return [
            *(getattr(torch._C, name) for name in SETTERS),
            cudnn["deterministic"].setter,
            cudnn["benchmark"].setter,
        ]

    before = current()
    with pytest.raises(ValueError, match="ends the run"), Watch(Mode.STRICT):
        assert not set(current()) & set(before)
        raise ValueError("ends the run")
    assert current() == before


# ---------------------------------------------------------------------------------------------- no false alarms


def train_a_recurrent_model():
    model = torch.nn.LSTM(3, 4)
    model(torch.rand(5, 2, 3))[0].sum().backward()


def switch_cudnn_off_for_a_block():
    with torch.backends.cudnn.flags(enabled=False):
        torch.nn.functional.conv2d(torch.rand(1, 1, 4, 4), torch.rand(1, 1, 3, 3))


def compile_a_function():
    compiled = torch.compile(lambda value: (value.sin() + 1).sum(), backend="eager")
    compiled(torch.rand(4))


def arm_strict_mode_as_documented():
    os.environ[VARIABLE] = ":4096:8"
    torch.use_deterministic_algorithms(True)
    torch.set_deterministic_debug_mode("error")
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    torch.utils.deterministic.fill_uninitialized_memory = True
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True):
        pass


def choose_the_smaller_workspace():
    os.environ[VARIABLE] = ":16:8"


@pytest.mark.parametrize(
    "workload",
    [
        train_a_recurrent_model,
        switch_cudnn_off_for_a_block,
        compile_a_function,
        arm_strict_mode_as_documented,
        choose_the_smaller_workspace,
    ],
)
def test_what_leaves_strict_mode_alone_is_no_breach(strict, workload):
    assert watched(workload) == ()


def test_a_workspace_that_is_set_before_cublas_reads_it_is_no_breach(strict, monkeypatch):
    monkeypatch.delenv(VARIABLE)
    assert watched(choose_the_smaller_workspace) == ()


def test_a_script_that_arms_strict_mode_itself_does_not_end_a_warn_only_run(arming):
    arming(Mode.WARN_ONLY)

    def workload():
        torch.use_deterministic_algorithms(True)
        torch.set_deterministic_debug_mode("error")
        assert torch.is_deterministic_algorithms_warn_only_enabled()

    assert watched(workload, Mode.WARN_ONLY) == ()


# ---------------------------------------------------------------------------------------------- cost


def best_of(times, function):
    def once():
        started = time.perf_counter()
        function()
        return time.perf_counter() - started

    return min(once() for _ in range(times))


def test_a_check_costs_microseconds_and_reading_all_flags_less_than_a_millisecond(strict):
    with Watch(Mode.STRICT) as watch:
        assert best_of(50, lambda: watch.check(0, 1)) < 100e-6
    assert best_of(20, read_flags) < 1e-3
