"""Work in a second thread."""

from __future__ import annotations

import os
import threading

import pytest

from helix.util import threads as module
from helix.util.threads import beside


@pytest.fixture(params=[1, 2])
def cores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(module, "_cores", lambda: request.param)
    return int(request.param)


@pytest.mark.usefixtures("cores")
def test_the_result_or_the_error_comes_when_asked_for() -> None:
    assert beside(divmod, 7, 2)() == (3, 1)
    waiting = beside(divmod, 7, 0)
    with pytest.raises(ZeroDivisionError):
        waiting()


def test_one_core_does_it_in_turn_two_at_once(cores: int) -> None:
    begun = threading.Event()
    waiting = beside(lambda: begun.set() or threading.current_thread())
    assert begun.wait(5 if cores == 2 else 0.05) == (cores == 2)
    assert (waiting() is threading.current_thread()) == (cores == 1)
    meet = threading.Barrier(2, timeout=5 if cores == 2 else 0.05)
    other = beside(meet.wait)
    if cores == 2:
        mine = meet.wait()  # before it is asked for
        assert {mine, other()} == {0, 1}
    else:
        with pytest.raises(threading.BrokenBarrierError):
            meet.wait()


def test_what_waits_for_a_free_thread_is_done_by_who_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_cores", lambda: 2)
    done = threading.Event()
    busy = [beside(done.wait, 30) for _ in range(os.cpu_count() or 2)] + [beside(done.wait, 30) for _ in range(2)]
    waiting = beside(threading.current_thread)
    assert waiting() is threading.current_thread()
    assert waiting() is threading.current_thread()  # and once only
    done.set()
    assert all(one() for one in busy)


def test_a_forked_process_begins_threads_of_its_own() -> None:
    beside(int)()
    child = os.fork()
    if not child:
        os._exit(beside(lambda: 7)())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
