"""Standing behind others, whatever the kernel shares its cores out by."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

AUTOGROUP = Path("/proc/self/autogroup")
TOLD = """
import os
from helix.behind import stand_behind
stand_behind({nice})
path = "/proc/self/autogroup"
told = open(path).read().split() if os.path.exists(path) else []
print(os.getpriority(os.PRIO_PROCESS, 0), told[-1] if told else 0)
"""
PR_CAPBSET_DROP, CAP_SYS_ADMIN = 24, 21


def of_session() -> int:
    """How nice this process's session is; the kernel says nothing to a process that is in none it shares out by."""
    told = AUTOGROUP.read_text().split() if AUTOGROUP.exists() else []
    return int(told[-1]) if told else 0


def begin(nice: int, leads: bool) -> subprocess.Popen[str]:
    """A process without privileges that stands behind, and says how nice it is, and its session."""
    libc = ctypes.CDLL(None)
    return subprocess.Popen(
        [sys.executable, "-c", TOLD.format(nice=nice)],
        start_new_session=leads,
        preexec_fn=lambda: libc.prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN),
        stdout=subprocess.PIPE,
        text=True,
    )


def told(process: subprocess.Popen[str]) -> list[int]:
    return [int(value) for value in process.communicate(timeout=60)[0].split()]


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="this kernel shares nothing out by sessions")
def test_a_process_that_leads_its_session_makes_all_of_it_nice() -> None:
    at_once = [begin(19, leads=True) for _ in range(6)]
    assert [told(process) for process in at_once] == [[19, 19]] * 6
    assert told(begin(10, leads=True)) == [max(10, os.getpriority(os.PRIO_PROCESS, 0)), 10]


def test_the_session_of_others_is_left_as_it_is() -> None:
    assert told(begin(19, leads=False)) == [19, of_session()]
