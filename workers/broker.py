"""What kombu's Redis transport gets wrong for a worker that has to outlive its broker."""

from __future__ import annotations

from typing import Any

from kombu.transport import redis, virtual


class QoS(redis.QoS):  # type: ignore[misc]
    """Which messages a worker holds. One is let go of though Redis does not hear of it.

    kombu goes on to count it as held, and a worker that may hold one message at a time would never take another. Redis
    hands the message out again after the visibility timeout, and it is found done.
    """

    def ack(self, delivery_tag: str) -> None:
        """As kombu's; raises what Redis raises."""
        try:
            super().ack(delivery_tag)
        except Exception:
            virtual.QoS.ack(self, delivery_tag)
            raise

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """As kombu's; raises what Redis raises."""
        try:
            super().reject(delivery_tag, requeue)
        except Exception:
            virtual.QoS.ack(self, delivery_tag)
            raise


def install() -> None:
    """Have every connection to a Redis do so."""
    channel: Any = redis.Channel
    channel.QoS = QoS
