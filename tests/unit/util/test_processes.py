"""Background threads, and the priority of a process."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from helix.util import threads as module
from helix.util.threads import start_in_background

AUTOGROUP = Path("/proc/self/autogroup")
PROGRAM = """
import os
from helix.util.priority import lower_priority
lower_priority({nice})
path = "/proc/self/autogroup"
fields = open(path).read().split() if os.path.exists(path) else []
print(os.getpriority(os.PRIO_PROCESS, 0), fields[-1] if fields else 0)
"""
PR_CAPBSET_DROP, CAP_SYS_ADMIN = 24, 21


def read_session_niceness() -> int:
    """Return this session's niceness, or 0 where the kernel has no autogroups."""
    fields = AUTOGROUP.read_text().split() if AUTOGROUP.exists() else []
    return int(fields[-1]) if fields else 0


def start(nice: int, leads: bool) -> subprocess.Popen[str]:
    """Start a process without privileges that lowers its priority, then prints its niceness and its session's."""
    libc = ctypes.CDLL(None)
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(nice=nice)],
        start_new_session=leads,
        preexec_fn=lambda: libc.prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN),
        stdout=subprocess.PIPE,
        text=True,
    )


def read_niceness(process: subprocess.Popen[str]) -> list[int]:
    return [int(value) for value in process.communicate(timeout=60)[0].split()]


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="this kernel has no autogroups")
def test_a_session_leader_lowers_the_whole_session() -> None:
    processes = [start(19, leads=True) for _ in range(3)]
    assert [read_niceness(process) for process in processes] == [[19, 19]] * 3
    assert read_niceness(start(10, leads=True)) == [max(10, os.getpriority(os.PRIO_PROCESS, 0)), 10]


def test_another_process_leaves_its_session_as_it_is() -> None:
    assert read_niceness(start(19, leads=False)) == [19, read_session_niceness()]


@pytest.mark.parametrize("cores", [1, 2])
def test_two_cores_work_at_once_and_one_core_in_turn(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_count_cores", lambda: cores)
    assert start_in_background(divmod, 7, 2)() == (3, 1)
    waiting = start_in_background(divmod, 7, 0)
    with pytest.raises(ZeroDivisionError):  # an error comes when the result is asked for
        waiting()
    begun = threading.Event()
    waiting = start_in_background(lambda: begun.set() or threading.current_thread())
    assert begun.wait(60 if cores == 2 else 0.05) == (cores == 2)
    assert (waiting() is threading.current_thread()) == (cores == 1)
    meet = threading.Barrier(2, timeout=60 if cores == 2 else 0.05)
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
