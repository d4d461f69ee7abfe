"""Corrections of kombu's Redis transport: workers survive a broken broker and drop invalid messages."""

from __future__ import annotations

import logging
from typing import Any, Final

import orjson
import redis.client
from kombu.transport import redis as transport
from kombu.transport import virtual

from workers.messages import MAX_BYTES, MessageFormat, MessageRefused, rebuild_message

log = logging.getLogger("helix.workers")

_MAX_UNACKED: Final = 4 * MAX_BYTES
"""Bytes of an unacknowledged message, as the transport stores it."""


class QoS(transport.QoS):  # type: ignore[misc]
    """The messages that a worker holds. A message is released although Redis does not hear of it.

    kombu would count it as held for ever, and a worker that may hold one message would never take another. Redis
    delivers the message again after the visibility timeout; its task then finds the work done.
    """

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge as kombu does; raises the errors of Redis."""
        try:
            super().ack(delivery_tag)
        except Exception:
            virtual.QoS.ack(self, delivery_tag)
            raise

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Reject as kombu does; raises the errors of Redis."""
        try:
            super().reject(delivery_tag, requeue)
        except Exception:
            virtual.QoS.ack(self, delivery_tag)
            raise

    def restore_by_tag(self, tag: Any, client: Any = None, leftmost: bool = False) -> None:
        """Return an unacknowledged message to its queue as kombu does, but drop an invalid one.

        Raises the errors of Redis.
        """

        def restore(pipe: Any) -> None:
            stored = pipe.hget(self.unacked_key, tag)
            pipe.multi()
            self._remove_from_indices(tag, pipe)
            if stored and (message := _read_unacked(stored)):
                queue, raw = message
                (pipe.lpush if leftmost else pipe.rpush)(queue, raw)

        with self.channel.conn_or_acquire(client) as connected:
            connected.transaction(restore, self.unacked_key)


class QueueClient(redis.client.Redis):
    """The Redis client that receives messages; all of them pass here.

    It drops an invalid message: the transport then sees an empty answer and asks for the next one.
    """

    def parse_response(self, connection: Any, command_name: Any, **options: Any) -> Any:
        """Read a response, and check it if it is a message."""
        response = super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call]
        if command_name != "BRPOP" or not response:
            return response
        key, raw = response
        queue = key.decode(errors="replace").split(transport.Channel.sep)[0]  # a priority may follow the name
        try:
            return key, rebuild_message(queue, raw, _form)
        except MessageRefused as refused:
            _report_dropped(queue, refused.reason, raw)
        return None


def _read_unacked(stored: bytes) -> tuple[str, bytes] | None:
    """Return queue and message of an unacknowledged delivery, or None if it is invalid."""
    try:
        if len(stored) > _MAX_UNACKED:
            raise MessageRefused("size")
        message, _, queue = orjson.loads(stored)
        if not isinstance(queue, str):
            raise MessageRefused("form")
        return queue, rebuild_message(queue, orjson.dumps(message), _form)
    except MessageRefused as refused:
        _report_dropped("unacked", refused.reason, stored)
    except (ValueError, TypeError):  # no JSON, or not three values
        _report_dropped("unacked", "form", stored)
    return None


def _report_dropped(queue: str, reason: str, raw: bytes) -> None:
    from workers import metrics  # here: PROMETHEUS_MULTIPROC_DIR must be set before this import

    metrics.DROPPED.labels(queue, reason).inc()
    log.warning("a message was dropped", extra={"queue": queue, "why": reason, "bytes": len(raw)})


_form = MessageFormat()


def install(form: MessageFormat) -> None:
    """Patch kombu for every later connection to Redis, with the format of its messages."""
    global _form
    _form = form
    channel: Any = transport.Channel
    channel.QoS = QoS
    channel._get_client = lambda self: QueueClient
