from __future__ import annotations

import os
import threading

import pytest

from helix.util import threads as module
from helix.util.threads import start_in_background


@pytest.mark.parametrize("cores", [1, 2])
def test_two_cores_work_at_once_and_one_core_in_turn(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_count_cores", lambda: cores)
    assert start_in_background(divmod, 7, 2)() == (3, 1)
    waiting = start_in_background(divmod, 7, 0)
    with pytest.raises(ZeroDivisionError):  # an error comes when the result is asked for
        waiting()
    begun = threading.Event()
    waiting = start_in_background(lambda: begun.set() or threading.current_thread())
    assert begun.wait(5 if cores == 2 else 0.05) == (cores == 2)
    assert (waiting() is threading.current_thread()) == (cores == 1)
    meet = threading.Barrier(2, timeout=5 if cores == 2 else 0.05)
    other = start_in_background(meet.wait)
    if cores == 2:
        mine = meet.wait()  # before the result is asked for
        assert {mine, other()} == {0, 1}
    else:
        with pytest.raises(threading.BrokenBarrierError):
            meet.wait()


def test_the_caller_does_work_that_no_thread_is_free_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_count_cores", lambda: 2)
    done = threading.Event()
    busy = [start_in_background(done.wait, 30) for _ in range((os.cpu_count() or 2) + 2)]
    waiting = start_in_background(threading.current_thread)
    assert waiting() is threading.current_thread()
    assert waiting() is threading.current_thread()  # and once only
    done.set()
    assert all(one() for one in busy)


def test_a_forked_process_starts_its_own_threads() -> None:
    start_in_background(int)()
    child = os.fork()
    if not child:
        os._exit(start_in_background(lambda: 7)())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
