"""Lower CPU priority, for background work on a machine that also answers questions."""

from __future__ import annotations

import os
import time
from typing import Final

NICE: Final = 19
"""The lowest priority: on a core that another process wants, it gets about a sixtieth."""

_ATTEMPTS: Final = 40
_PAUSE: Final = 0.1
"""Seconds between two writes of any session's niceness, on the whole machine: a limit of the kernel."""


def lower_priority(nice: int = NICE) -> None:
    """Lower the CPU priority of this process and of those it starts from now on.

    Linux may divide cores among sessions first; then the niceness of a process means nothing to other sessions (see
    sched(7), "The autogroup feature"). A process that leads a session, as a service does, lowers the whole session.
    """
    os.setpriority(os.PRIO_PROCESS, 0, max(nice, os.getpriority(os.PRIO_PROCESS, 0)))
    if os.getsid(0) == os.getpid():
        _lower_session(nice)


def _lower_session(nice: int) -> None:
    for _ in range(_ATTEMPTS):
        try:
            with open("/proc/self/autogroup", "w") as file:
                file.write(str(nice))
        except BlockingIOError:
            time.sleep(_PAUSE * (1 + os.getpid() % 7 / 7))  # spread, so that waiting processes do not collide again
        except OSError:  # this kernel has no autogroups
            return
        else:
            return
