from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
