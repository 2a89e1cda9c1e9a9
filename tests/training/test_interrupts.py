import os
import signal
import threading

import pytest

from spanlab.training.interrupts import Interrupts, request_stop


def test_a_first_signal_is_noted_and_a_second_ctrl_c_is_not_waited_for() -> None:
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.received == signal.SIGINT
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.received == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_outside_the_main_thread_a_run_can_be_asked_to_stop() -> None:
    heard: list[signal.Signals | None] = []

    def run() -> None:
        with Interrupts() as interrupts:
            heard.append(interrupts.received)
            request_stop(signal.SIGINT)
            request_stop(signal.SIGTERM)
            heard.append(interrupts.received)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    request_stop(signal.SIGTERM)
    assert heard == [None, signal.SIGINT]
    assert Interrupts().received is None


@pytest.mark.parametrize(
    ("signum", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)], ids=["SIGINT", "SIGTERM"]
)
def test_a_signal_that_stopped_nothing_is_passed_on(signum: int, raised: type[BaseException]) -> None:
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signum)
    with pytest.raises(raised):
        interrupts.pass_on()
    Interrupts().pass_on()
