import os
import threading
import warnings

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from repro_audit.records import Mode, Phase
from repro_audit.worker.alerts import CUBLAS_OP, FLEX_OP, AlertLog, is_side_effect, refusal, refused_op

STRICT = (
    "{} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True)'. "
    "You can turn off determinism just for this operation, or you can use the 'warn_only=True' option."
)
WARNING = (
    "{} does not have a deterministic implementation, but you set "
    "'torch.use_deterministic_algorithms(True, warn_only=True)'. You can file an issue. "
    "(Triggered internally at /pytorch/aten/src/ATen/Context.cpp:99.)"
)
ATTENTION = (
    "{} defaults to a non-deterministic algorithm. To explicitly enable determinism call "
    "torch.use_deterministic_algorithms(True, warn_only=False)."
)
TRACEBACK = 'Original Traceback (most recent call last):\n  File "worker.py", line 3, in work\n    value.put_(a, b)\n'


class PutInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value * 2

    @staticmethod
    def backward(ctx, gradient):
        return put(gradient)


def put(value):
    return value.put(torch.tensor([0]), torch.ones(1))  # the refused line


def put_often(times):
    for _ in range(times):
        put(torch.zeros(2))


@pytest.fixture
def log(arming):
    arming(Mode.WARN_ONLY)
    with AlertLog() as log:
        yield log


def counts(log):
    return [(alert.op, alert.phase, alert.count) for alert in log.alerts]


@pytest.mark.parametrize(
    ("text", "op"),
    [
        (STRICT.format("put_"), "put_"),
        (WARNING.format("put_"), "put_"),
        (STRICT.format("median CUDA with indices output"), "median CUDA with indices output"),
        (STRICT.format("_histc_cuda with floating point input"), "_histc_cuda with floating point input"),
        (STRICT.format("my::extension::kernel<float>(int, bool)"), "my::extension::kernel<float>(int, bool)"),
        (ATTENTION.format("Flash Attention"), "Flash Attention"),
        (ATTENTION.format("Memory Efficient attention"), "Memory Efficient attention"),
        (ATTENTION.format("cuDNN Attention"), "cuDNN Attention"),
        (
            "Deterministic behavior was enabled with either `torch.use_deterministic_algorithms(True)` or "
            "`at::Context::setDeterministicAlgorithms(true)`, but this operation is not deterministic because it uses "
            "CuBLAS and you have CUDA >= 10.2.",
            CUBLAS_OP,
        ),
        (
            "Deterministic backward for flex_attention with block_mask and BACKEND='FLASH' requires SM100+ (compute "
            "capability >= 10.0).",
            FLEX_OP,
        ),
        (
            "flex_attention backward with block_mask and BACKEND='FLASH' does not have a deterministic implementation "
            "for this configuration, but you set 'torch.use_deterministic_algorithms(True, warn_only=True)'.",
            FLEX_OP,
        ),
        (f"Caught RuntimeError in replica 0 on device 0.\n{TRACEBACK}RuntimeError: {STRICT.format('put_')}", "put_"),
        (f"Caught RuntimeError in DataLoader worker 1.\n{TRACEBACK}RuntimeError: {STRICT.format('a b')}\n", "a b"),
        (f'Dynamo failed to run FX node: got RuntimeError("{STRICT.format("put_")}")', "put_"),
        (f"step 3 failed: {STRICT.format('put_')}", "put_"),
    ],
)
def test_the_refused_op_is_read_from_every_known_wording(text, op):
    assert refused_op(text) == op


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\"fill_empty_deterministic_\" not implemented for 'UInt4'",
        "\"put_\" not implemented for 'Half'",
        "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
        "put_ does not have a deterministic implementation",
        "to be repeatable, but you set 'torch.use_deterministic_algorithms(True)'",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
    ],
)
def test_other_texts_are_no_refusals(text):
    assert refused_op(text) is None


def test_a_long_text_without_line_ends_is_searched_quickly():
    assert refused_op("x: " * 20_000) is None


def test_what_strict_mode_breaks_itself_is_a_side_effect_and_no_refusal(arming):
    arming(Mode.STRICT)
    with pytest.raises(NotImplementedError) as raised:
        torch.empty(3, dtype=torch.uint4)
    assert is_side_effect(str(raised.value))
    assert refusal(raised.value, 1) is None


def test_an_ordinary_error_is_no_side_effect():
    assert not is_side_effect("\"put_\" not implemented for 'Half'")


def test_a_real_refusal_names_op_step_phase_and_the_users_line(arming):
    arming(Mode.STRICT)
    with pytest.raises(RuntimeError) as raised:
        put(torch.zeros(2))
    alert = refusal(raised.value, 4)
    assert alert is not None
    assert (alert.op, alert.step, alert.phase, alert.count) == ("put_", 4, Phase.FORWARD, 1)
    assert alert.message == str(raised.value)
    assert alert.location is not None
    assert alert.location.text.endswith("# the refused line")


def test_a_refusal_inside_a_library_is_placed_at_the_users_line_that_called_it(arming):
    arming(Mode.STRICT)
    pooled, indices = torch.nn.functional.max_pool2d(torch.rand(1, 1, 4, 4), 2, return_indices=True)
    with pytest.raises(RuntimeError) as raised:
        torch.nn.MaxUnpool2d(2)(pooled, indices)  # the calling line
    alert = refusal(raised.value, 1)
    assert alert is not None
    assert alert.op == "max_unpooling2d_forward_out"
    assert alert.location is not None
    assert alert.location.text.endswith("# the calling line")


def test_a_refused_backward_is_of_that_phase_and_placed_at_its_call(arming):
    arming(Mode.WARN_ONLY)
    value = torch.zeros(2, requires_grad=True)
    with AlertLog():
        loss = put(value).sum()
    arming(Mode.STRICT)
    with pytest.raises(RuntimeError) as raised:
        loss.backward()  # the calling line
    alert = refusal(raised.value, 1)
    assert alert is not None
    assert (alert.op, alert.phase) == ("put_", Phase.BACKWARD)
    assert alert.location is not None
    assert alert.location.text.endswith("# the calling line")


def raise_another(cause):
    try:
        put(torch.zeros(2))
    except RuntimeError as refused:
        if cause:
            raise ValueError("training failed") from refused
        raise ValueError("training failed")  # noqa: B904 - as careless code does


@pytest.mark.parametrize("cause", [True, False])
def test_a_refusal_is_found_behind_the_error_that_was_made_of_it(arming, cause):
    arming(Mode.STRICT)
    with pytest.raises(ValueError, match="training failed") as raised:
        raise_another(cause)
    alert = refusal(raised.value, 1)
    assert alert is not None
    assert alert.op == "put_"
    assert alert.location is not None
    assert alert.location.text.endswith("# the refused line")


def test_an_error_that_quotes_the_refusal_it_was_made_of_does_not_hide_its_line(arming):
    arming(Mode.STRICT)
    try:
        put(torch.zeros(2))
    except RuntimeError as refused:
        quoting = RuntimeError(f"step 3 failed: {refused}")
        quoting.__cause__ = refused
    alert = refusal(quoting, 1)
    assert alert is not None
    assert alert.message.startswith("put_ does not have")
    assert alert.location is not None
    assert alert.location.text.endswith("# the refused line")


def test_a_refusal_that_a_custom_backward_made_another_error_of_is_still_of_backward(arming):
    class Complaining(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value * 2

        @staticmethod
        def backward(ctx, gradient):
            raise_another(cause=True)

    arming(Mode.STRICT)
    with pytest.raises(ValueError, match="training failed") as raised:
        Complaining.apply(torch.zeros(2, requires_grad=True)).sum().backward()
    alert = refusal(raised.value, 1)
    assert alert is not None
    assert (alert.op, alert.phase) == ("put_", Phase.BACKWARD)


def test_a_refusal_is_found_in_a_group_of_errors():
    group = ExceptionGroup("two tasks", [ValueError("one"), RuntimeError(STRICT.format("put_"))])
    alert = refusal(group, 1)
    assert alert is not None
    assert alert.op == "put_"


def test_a_refusal_passed_on_by_another_process_is_found_whatever_the_type_of_its_error():
    class ProcessRaisedError(Exception):
        pass

    alert = refusal(ProcessRaisedError(f"-- Process 0 failed:\n{TRACEBACK}RuntimeError: {STRICT.format('put_')}"), 1)
    assert alert is not None
    assert alert.op == "put_"


def test_errors_that_refer_to_each_other_end_the_search():
    first, second = ValueError("a"), ValueError("b")
    first.__context__, second.__context__ = second, first
    assert refusal(first, 1) is None


def test_every_alert_is_counted_with_its_first_step_and_line(log):
    for log.step in range(1, 4):
        put_often(5)
    (alert,) = log.alerts
    assert (alert.op, alert.phase, alert.count, alert.step) == ("put_", Phase.FORWARD, 15, 1)
    assert "warn_only=True" in alert.message
    assert alert.location is not None
    assert alert.location.text.endswith("# the refused line")
    assert alert.forward_location is None


def test_alerts_of_two_lines_or_ops_stand_apart(log):
    put(torch.zeros(2))
    torch.zeros(2).put_(torch.tensor([0]), torch.ones(1))
    torch.nn.functional.max_unpool2d(torch.rand(1, 1, 1, 1), torch.tensor([[[[3]]]]), 2)
    assert [alert.op for alert in log.alerts] == ["put_", "put_", "max_unpooling2d_forward_out"]


def test_a_run_without_refused_ops_has_no_alerts(log):
    weight = torch.rand(3, 3, requires_grad=True)
    (weight @ weight).sum().backward()
    assert log.alerts == ()


@pytest.mark.parametrize("action", ["ignore", "error", "once", "default", "module"])
def test_filters_of_the_workload_lose_no_alert(log, action):
    warnings.simplefilter(action)
    warnings.filterwarnings(action, message=".*deterministic.*")
    put_often(3)
    assert counts(log) == [("put_", Phase.FORWARD, 3)]


def test_catching_warnings_in_the_workload_loses_no_alert(log):
    with warnings.catch_warnings(action="ignore"):
        put_often(2)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("ignore")
        put_often(2)
    put_often(2)
    assert counts(log) == [("put_", Phase.FORWARD, 6)]


def test_resetting_filters_in_the_workload_loses_no_alert(log):
    warnings.resetwarnings()
    warnings.simplefilter("ignore")
    put_often(2)
    assert counts(log) == [("put_", Phase.FORWARD, 2)]


def test_a_workload_that_replaces_showwarning_loses_no_alert(log):
    with warnings.catch_warnings():
        warnings.showwarning = lambda *_: None
        put_often(2)
    assert counts(log) == [("put_", Phase.FORWARD, 2)]


def test_pytorch_shows_all_its_warnings_even_when_the_workload_asks_for_the_first_only(log):
    torch.set_warn_always(False)
    assert torch.is_warn_always_enabled()


def test_alerts_that_only_warn_are_counted_as_well(log):
    for kernel in ("Flash Attention", "Memory Efficient attention", "Flash Attention"):
        warnings.warn(ATTENTION.format(kernel), stacklevel=1)
    assert [alert.op for alert in log.alerts] == ["Flash Attention", "Memory Efficient attention"]


def test_other_warnings_go_their_usual_way(arming):
    arming(Mode.WARN_ONLY)
    with pytest.warns(UserWarning, match="something else") as recorded, AlertLog() as log:
        warnings.warn("something else", stacklevel=1)
        put(torch.zeros(2))
    assert len(recorded) == 1
    assert counts(log) == [("put_", Phase.FORWARD, 1)]


def test_other_warnings_obey_the_filters_of_the_workload(log):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="something else"):
            warnings.warn("something else", stacklevel=1)
        warnings.simplefilter("ignore")
        warnings.warn("something else", stacklevel=1)
    assert log.alerts == ()


def test_everything_is_as_before_after_the_log(arming):
    arming(Mode.STRICT)
    names = ("_showwarnmsg", "_add_filter", "resetwarnings", "showwarning", "catch_warnings")
    before = [getattr(warnings, name) for name in names], list(warnings.filters), torch._C._set_warnAlways
    with AlertLog():
        warnings.simplefilter("ignore")
    assert ([getattr(warnings, name) for name in names], list(warnings.filters), torch._C._set_warnAlways) == before
    assert not torch.is_warn_always_enabled()


def test_alerts_of_threads_are_all_counted(log):
    threads = [threading.Thread(target=put_often, args=(100,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts(log) == [("put_", Phase.FORWARD, 400)]


def test_alerts_in_forked_processes_are_counted_beside_those_of_their_parent(log):
    put_often(2)
    children = []
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # newer Python: this process has threads
            child = os.fork()
        if child == 0:
            put_often(50)
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    assert counts(log) == [("put_", Phase.FORWARD, 102)]
    assert counts(log) == [("put_", Phase.FORWARD, 102)], "reading them must not count them twice"


@pytest.mark.parametrize("by", ["backward", "grad"])
def test_alerts_of_backward_are_of_that_phase_and_placed_at_its_call(log, by):
    value = torch.zeros(2, requires_grad=True)
    loss = put(value).sum()
    differentiate = {"backward": loss.backward, "grad": lambda: torch.autograd.grad(loss, value)}[by]
    differentiate()  # the calling line
    forward, backward = log.alerts
    assert (forward.phase, forward.count) == (Phase.FORWARD, 1)
    assert (backward.op, backward.phase, backward.count) == ("put_", Phase.BACKWARD, 1)
    assert backward.location is not None
    assert "grad(loss, value)" in backward.location.text or backward.location.text.endswith("# the calling line")


def test_a_forward_op_in_a_custom_backward_counts_as_backward_at_its_own_line(log):
    PutInBackward.apply(torch.zeros(2, requires_grad=True)).sum().backward()
    (alert,) = log.alerts
    assert (alert.op, alert.phase) == ("put_", Phase.BACKWARD)
    assert alert.location is not None
    assert alert.location.text.endswith("# the refused line")


def test_a_forward_that_a_checkpoint_recomputes_counts_as_backward(log):
    value = torch.zeros(2, requires_grad=True)
    loss = checkpoint(lambda given: put(given.exp()).exp(), value, use_reentrant=False).sum()
    loss.backward()  # the calling line
    seen = [(alert.phase, alert.location.text.partition("# ")[2]) for alert in log.alerts if alert.location]
    assert seen == [
        (Phase.FORWARD, "the refused line"),
        (Phase.BACKWARD, "the refused line"),
        (Phase.BACKWARD, "the calling line"),
    ]
