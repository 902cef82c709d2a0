import pytest
import torch

from repro_audit.worker.function_workload import workload_of

CPU = torch.device("cpu")


def stepped(function):
    workload = workload_of(function)()
    workload.setup(CPU)
    assert workload.state() == {}
    return workload.step(), workload.state()


def test_the_device_is_given_to_what_takes_it():
    loss, state = stepped(lambda device: {"loss": 2.0, "device": str(device)})
    assert (loss, state) == (2.0, {"loss": 2.0, "device": "cpu"})
    assert stepped(lambda: 3)[0] == 3


@pytest.mark.parametrize("loss", [1, 0.5, torch.tensor(1.0), torch.ones(1, 1)])
def test_a_loss_alone_is_the_state_too(loss):
    returned, state = stepped(lambda: loss)
    assert returned is loss
    assert state == {"returned": loss}


@pytest.mark.parametrize("returned", [None, {}, {"value": 1}, [], "1.0", torch.ones(2), {"loss": None}])
def test_what_holds_no_loss_is_refused(returned):
    with pytest.raises(TypeError, match="without a loss; return a number"):
        stepped(lambda: returned)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="neither a class nor a function"):
        workload_of(3)
