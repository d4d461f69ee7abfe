"""What kombu's Redis transport gets wrong for a worker that has to outlive its broker, and whoever writes to it."""

from __future__ import annotations

import logging
from typing import Any, Final

import orjson
import redis.client
from kombu.transport import redis as transport
from kombu.transport import virtual

from workers.messages import MOST, Form, Refused, renew

log = logging.getLogger("helix.workers")

_HELD: Final = 4 * MOST
"""Bytes of a message that somebody has, as the transport notes it."""


class QoS(transport.QoS):  # type: ignore[misc]
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

    def restore_by_tag(self, tag: Any, client: Any = None, leftmost: bool = False) -> None:
        """Put what somebody had back into its queue; as kombu's, but what is no message of ours is dropped here, too.

        Raises what Redis raises.
        """

        def restore(pipe: Any) -> None:
            held = pipe.hget(self.unacked_key, tag)
            pipe.multi()
            self._remove_from_indices(tag, pipe)
            if held and (found := _put_back(held)):
                queue, raw = found
                (pipe.lpush if leftmost else pipe.rpush)(queue, raw)

        with self.channel.conn_or_acquire(client) as connected:
            connected.transaction(restore, self.unacked_key)


class Client(redis.client.Redis):
    """Reads elements of the queues; the one place where they come in.

    An element that is no message of ours is dropped: the transport is told that nothing came, and asks for the next.
    """

    def parse_response(self, connection: Any, command_name: Any, **options: Any) -> Any:
        """As of the class above."""
        found = super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call]
        if command_name != "BRPOP" or not found:
            return found
        key, raw = found
        queue = key.decode(errors="replace").split(transport.Channel.sep)[0]  # behind the name there may be a priority
        try:
            return key, renew(queue, raw, _form)
        except Refused as refused:
            _tell_dropped(queue, refused.why, raw)
        return None


def _put_back(held: bytes) -> tuple[str, bytes] | None:
    """Queue and message of what somebody had; None where it is none."""
    try:
        if len(held) > _HELD:
            raise Refused("size")
        message, _, queue = orjson.loads(held)
        if not isinstance(queue, str):
            raise Refused("form")
        return queue, renew(queue, orjson.dumps(message), _form)
    except Refused as refused:
        _tell_dropped("unacked", refused.why, held)
    except (ValueError, TypeError):  # no JSON, or not three things
        _tell_dropped("unacked", "form", held)
    return None


def _tell_dropped(queue: str, why: str, raw: bytes) -> None:
    from workers import metrics  # here: where it counts is known once a worker has begun

    metrics.DROPPED.labels(queue, why).inc()
    log.warning("a message was dropped", extra={"queue": queue, "why": why, "bytes": len(raw)})


_form = Form()


def install(form: Form) -> None:
    """Have every connection to a Redis do so.

    Args:
        form: of the messages.
    """
    global _form
    _form = form
    channel: Any = transport.Channel
    channel.QoS = QoS
    channel._get_client = lambda self: Client
