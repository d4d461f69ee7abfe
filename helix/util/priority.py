"""Standing behind others: for work nobody waits for, on a machine where somebody is waited for."""

from __future__ import annotations

import os
import time
from typing import Final

NICE: Final = 19
"""The nicest there is: of a core that somebody else wants such a process gets a sixtieth."""

_TRIES: Final = 40
_PAUSE: Final = 0.1
"""Seconds: the kernel lets one session in all of the machine be told in so many."""


def stand_behind(nice: int = NICE) -> None:
    """Leave the cores to whoever wants them; processes started from here on do the same.

    Linux may share the cores out among sessions first, and to a session as such niceness says nothing (sched(7), "The
    autogroup feature"). So a process that leads one, as a service does, makes all of it nice.
    """
    os.setpriority(os.PRIO_PROCESS, 0, max(nice, os.getpriority(os.PRIO_PROCESS, 0)))
    if os.getsid(0) == os.getpid():
        _tell_session(nice)


def _tell_session(nice: int) -> None:
    for _ in range(_TRIES):
        try:
            with open("/proc/self/autogroup", "w") as file:
                file.write(str(nice))
        except BlockingIOError:
            time.sleep(_PAUSE * (1 + os.getpid() % 7 / 7))  # so that those who wait do not come back at once
        except OSError:  # a kernel that does not share out by sessions
            return
        else:
            return
