"""Token buckets: the requests a second of keys, addresses and stores."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

_MAX_BUCKETS: Final = 10_000  # names whose requests are counted


class TokenBuckets:
    """Token buckets by name: `burst` requests at once, then `rate` a second.

    Args:
        rate: of a name without its own; 0: no limit.
        clock: monotonic seconds.
    """

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()  # (tokens, time)

    def take(self, name: str, rate: float | None = None) -> float:
        """Take one token and return 0, or return the seconds until the next token.

        Args:
            rate: the name's own, with bursts of twice as many.
        """
        rate, burst = (self._rate, self._burst) if rate is None else (rate, 2 * rate)
        if not rate:
            return 0.0
        tokens = self._count_tokens(name, rate, max(1.0, burst))
        if tokens < 1:
            return (1 - tokens) / rate
        self._levels[name] = tokens - 1, self._clock()
        self._levels.move_to_end(name)
        if len(self._levels) > _MAX_BUCKETS:
            self._levels.popitem(last=False)
        return 0.0

    def _count_tokens(self, name: str, rate: float, burst: float) -> float:
        tokens, when = self._levels.get(name, (burst, self._clock()))
        return min(burst, tokens + (self._clock() - when) * rate)
