import os
import signal

import pytest

from repro_audit.interrupts import SIGNALS, raise_on_signals, uninterrupted


@pytest.fixture(autouse=True)
def handlers():
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_every_request_to_stop_is_an_interrupt(number):
    raise_on_signals()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_none_of_them_reaches_what_must_be_finished_and_all_do_afterwards(number):
    raise_on_signals()
    with uninterrupted():
        os.kill(os.getpid(), number)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)
