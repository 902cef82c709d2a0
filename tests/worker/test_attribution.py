import threading

import pytest
import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode
from torch.utils.checkpoint import checkpoint

from repro_audit.records import Alert, Mode, Phase, SourceLine
from repro_audit.worker.alerts import AlertLog
from repro_audit.worker.attribution import Attributed, attribute, with_forward_locations

INDEX = torch.tensor([0])
ONE = torch.ones(1)

FIRST = SourceLine(path="model.py", line=1, text="a")
SECOND = SourceLine(path="model.py", line=2, text="b")
CALL = SourceLine(path="train.py", line=9, text="loss.backward()")
OTHER_CALL = SourceLine(path="train.py", line=19, text="other.backward()")


def backward_alert(op="put_", count=1, location=CALL):
    return Alert(
        op=op,
        message="refused",
        phase=Phase.BACKWARD,
        step=1,
        count=count,
        location=location,
        forward_location=None,
    )


def two_lines(times=1):
    value = torch.zeros(2, requires_grad=True)
    for _ in range(times):
        one = value.put(INDEX, ONE)  # line one
        two = one.mul(2).put(INDEX, ONE)  # line two
        two.sum().backward()  # the calling line
    return value.grad


def marks(attributed):
    return {(op, line.text.partition("# ")[2] if line is not None else None): n for (op, line), n in attributed.items()}


@pytest.fixture(autouse=True)
def warn_only(arming):
    arming(Mode.WARN_ONLY)


def test_each_backward_alert_goes_back_to_the_forward_line_that_made_its_op():
    assert marks(attribute(lambda: two_lines(3))) == {("put_", "line one"): 3, ("put_", "line two"): 3}


def test_what_was_attributed_splits_the_alerts_that_were_observed():
    with AlertLog() as log:
        two_lines(2)
    alerts = with_forward_locations(log.alerts, attribute(lambda: two_lines(2)))
    backward = [alert for alert in alerts if alert.phase is Phase.BACKWARD]
    assert [(alert.count, alert.forward_location.text.partition("# ")[2]) for alert in backward] == [
        (2, "line two"),
        (2, "line one"),
    ]
    assert all(alert.location.text.endswith("# the calling line") for alert in backward)
    assert sum(alert.count for alert in alerts) == sum(alert.count for alert in log.alerts)


def test_refused_forward_ops_are_not_attributed():
    def forward_only():
        torch.zeros(2, requires_grad=True).put(INDEX, ONE).sum()

    assert attribute(forward_only) == {}


def test_a_backward_without_refused_ops_gives_nothing():
    def matrices():
        weight = torch.rand(3, 3, requires_grad=True)
        (weight @ weight).sum().backward()

    assert attribute(matrices) == {}


def test_a_line_inside_a_library_goes_back_to_the_users_line():
    class Put(torch.nn.Module):
        def forward(self, value):
            return value.put(INDEX, ONE)  # in the module

    def module():
        torch.nn.Sequential(torch.nn.Linear(2, 2), Put())(torch.ones(2)).sum().backward()

    assert marks(attribute(module)) == {("put_", "in the module"): 1}


def test_an_op_of_a_custom_backward_goes_back_to_the_custom_forward():
    class Custom(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value * 2  # custom forward

        @staticmethod
        def backward(ctx, gradient):
            return gradient.put(INDEX, ONE)

    def custom():
        Custom.apply(torch.zeros(2, requires_grad=True)).sum().backward()

    assert marks(attribute(custom)) == {("put_", "custom forward"): 1}


@pytest.mark.parametrize("reentrant", [True, False])
def test_ops_under_a_checkpoint_go_back_to_the_checkpointed_line(reentrant):
    def block(value):
        grown = value.exp()
        return grown.put(INDEX, ONE)  # checkpointed

    def checkpointed():
        value = torch.zeros(2, requires_grad=True)
        checkpoint(block, value, use_reentrant=reentrant).sum().backward()

    # The recomputed op and its backward; PyTorch leaves the last op out where nothing needs what it computes.
    assert marks(attribute(checkpointed)) == {("put_", "checkpointed"): 2 if reentrant else 1}


def test_a_recomputed_op_that_is_needed_goes_back_to_its_own_line():
    def block(value):
        grown = value.exp().put(INDEX, ONE)  # checkpointed
        return grown.exp()

    def checkpointed():
        value = torch.zeros(2, requires_grad=True)
        checkpoint(block, value, use_reentrant=False).sum().backward()

    assert marks(attribute(checkpointed)) == {("put_", "checkpointed"): 2}


def test_ops_of_a_second_derivative_go_back_to_the_first_forward():
    def penalty():
        value = torch.ones(2, requires_grad=True)
        made = value.put(INDEX, ONE)  # first forward
        (gradient,) = torch.autograd.grad(made.pow(3).sum(), value, create_graph=True)
        gradient.square().sum().backward()

    assert marks(attribute(penalty)) == {("put_", "first forward"): 3}


@pytest.mark.parametrize("kernel", ["efficient", "flash"])
def test_attention_that_strict_mode_repairs_is_attributed_by_the_name_in_its_warning(kernel):
    # Tensors on "meta" have no data, so that the kernels of CUDA can be called for.
    class Attention(torch.autograd.Function):
        @staticmethod
        def forward(ctx, query):
            return query * 1  # attention

        @staticmethod
        def backward(ctx, gradient):
            query = torch.empty(1, 1, 8, 8, device="meta", dtype=torch.float16)
            logsumexp = torch.empty(1, 1, 8, device="meta")
            number = torch.empty((), device="meta", dtype=torch.int64)
            if kernel == "efficient":
                made = torch.ops.aten._scaled_dot_product_efficient_attention_backward(
                    query, query, query, query, None, query, logsumexp, number, number, 0.0, [True, True, True, False]
                )
            else:
                made = torch.ops.aten._scaled_dot_product_flash_attention_backward(
                    query, query, query, query, query, logsumexp, None, None, 8, 8, 0.0, False, number, number
                )
            return made[0]

    def attention():
        query = torch.empty(1, 1, 8, 8, device="meta", dtype=torch.float16, requires_grad=True)
        Attention.apply(query).sum().backward()

    name = {"efficient": "Memory Efficient attention", "flash": "Flash Attention"}[kernel]
    assert marks(attribute(attention)) == {(name, "attention"): 1}


@pytest.mark.parametrize(("threads", "line"), [(1, "in a thread"), (2, None)])
def test_a_number_that_two_threads_gave_leads_to_no_line(threads, line):
    # Threads of CUDA devices count their nodes for themselves; they have the mode, and Python's get it here.
    losses = []
    all_made = threading.Barrier(threads)

    def in_thread(mode):
        with mode:
            losses.append(torch.zeros(2, requires_grad=True).put(INDEX, ONE).sum())  # in a thread
        all_made.wait(timeout=10)

    def threaded():
        mode = _get_current_dispatch_mode()
        started = [threading.Thread(target=in_thread, args=(mode,)) for _ in range(threads)]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
        losses[0].backward()

    assert marks(attribute(threaded)) == {("put_", line): 1}


def test_observing_changes_neither_results_nor_random_numbers():
    def training():
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout())
        model(torch.rand(2, 4)).sum().backward()
        return [parameter.grad for parameter in model.parameters()], torch.get_rng_state()

    expected = training()
    seen = []
    attribute(lambda: seen.append(training()))
    assert all(torch.equal(a, b) for a, b in zip(seen[0][0], expected[0], strict=True))
    assert torch.equal(seen[0][1], expected[1])


def test_the_process_only_warns_afterwards():
    attribute(two_lines)
    assert torch.is_deterministic_algorithms_warn_only_enabled()


def test_an_error_of_the_workload_passes_through_and_the_process_still_only_warns():
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        attribute(lambda: torch.zeros(2, 3) @ torch.zeros(2, 3))
    assert torch.is_deterministic_algorithms_warn_only_enabled()


def test_one_forward_line_takes_all_alerts_of_its_op():
    alerts = (backward_alert(count=7), backward_alert(count=1, location=OTHER_CALL))
    located = with_forward_locations(alerts, Attributed({("put_", FIRST): 3}))
    assert [(alert.count, alert.forward_location) for alert in located] == [(7, FIRST), (1, FIRST)]


def test_several_forward_lines_share_the_alerts_when_their_numbers_agree():
    located = with_forward_locations(
        (backward_alert(count=5),), Attributed({("put_", FIRST): 3, ("put_", SECOND): 2, ("other", SECOND): 9})
    )
    assert [(alert.count, alert.forward_location) for alert in located] == [(3, FIRST), (2, SECOND)]


def test_several_forward_lines_whose_numbers_disagree_leave_the_line_open():
    alerts = (backward_alert(count=6),)
    assert with_forward_locations(alerts, Attributed({("put_", FIRST): 3, ("put_", SECOND): 2})) == alerts


def test_several_forward_lines_and_several_backward_calls_leave_the_line_open():
    alerts = (backward_alert(count=5), backward_alert(count=5, location=OTHER_CALL))
    assert with_forward_locations(alerts, Attributed({("put_", FIRST): 3, ("put_", SECOND): 2})) == alerts


def test_alerts_of_ops_that_were_not_attributed_stay_as_they_are():
    alerts = (backward_alert(), backward_alert(op="other"))
    assert with_forward_locations(alerts, Attributed()) == alerts
    assert with_forward_locations(alerts, Attributed({("put_", None): 1})) == alerts


def test_forward_alerts_get_no_forward_line_of_their_own():
    alert = Alert(op="put_", message="", phase=Phase.FORWARD, step=1, count=1, location=FIRST, forward_location=None)
    assert with_forward_locations((alert,), Attributed({("put_", FIRST): 1})) == (alert,)
