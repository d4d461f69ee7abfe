"""Signed messages: Celery's `auth` serializer, with the certificates of all senders.

Celery signs the body; the signature does not cover the task. `MessageFormat.open_body` checks it before anything reads
the body. Celery itself would trust an unsigned field for the content type, which then need not be JSON.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kombu.serialization import dumps

from helix.errors import UsageError
from helix.settings import Settings
from workers.messages import MessageFormat, MessageRefused

if TYPE_CHECKING:
    from celery import Celery

CONTENT_TYPE: Final = "application/data"
"""Celery's content type of a signed body."""

_SEPARATOR: Final = b"\0\1"
"""Bytes between the fields of a signed body."""


def choose_format(settings: Settings) -> MessageFormat:
    """Return the format of messages: plain, or signed if the settings name key and certificates.

    Raises:
        UsageError: the settings name only some of them, or one is unusable.
    """
    given = (settings.message_key, settings.message_certificate, settings.message_certificates)
    if not any(given):
        return MessageFormat()
    if not all(given):
        raise UsageError(
            "HELIX_MESSAGE_KEY, HELIX_MESSAGE_CERTIFICATE and HELIX_MESSAGE_CERTIFICATES are not all given",
            "set all three to sign messages, or none",
        )
    try:
        from celery.security.certificate import FSCertStore
        from celery.security.utils import get_digest_algorithm
    except ImportError:
        raise UsageError("messages cannot be signed without the package cryptography", "install it") from None
    if not Path(settings.message_certificates).is_dir():
        raise UsageError(
            f"HELIX_MESSAGE_CERTIFICATES={settings.message_certificates!r} is no folder",
            "name the folder with the certificate of every sender",
        )
    try:
        certificates = FSCertStore(settings.message_certificates)
    except Exception as error:  # noqa: BLE001 — an invalid certificate raises many classes
        raise _describe_unusable(settings, error) from None
    digest = get_digest_algorithm()

    def open_body(body: bytes) -> bytes:
        try:
            signer, signature, _, _, content = base64.b64decode(body, validate=True).split(_SEPARATOR, 4)
            certificates[base64.b64decode(signer)].verify(content, base64.b64decode(signature), digest)
        except Exception:  # noqa: BLE001 — an invalid signature raises many classes
            raise MessageRefused("signature") from None
        return content

    return MessageFormat("auth", CONTENT_TYPE, open_body)


def set_up_signing(app: Celery, settings: Settings, form: MessageFormat) -> None:
    """Let an application sign its messages, if the format says so.

    Raises:
        UsageError: the key or a certificate is unusable, or they do not match.
    """
    if form.serializer != "auth":
        return
    try:
        key, certificate, certificates = (
            settings.message_key,
            settings.message_certificate,
            settings.message_certificates,
        )
        app.setup_security(key=key, cert=certificate, store=certificates)
        body: Any = dumps([], form.serializer)[2]
        form.open_body(body if isinstance(body, bytes) else str(body).encode())
    except MessageRefused:
        raise UsageError(
            f"no worker would accept messages signed with {settings.message_key}: it does not match "
            f"{settings.message_certificate}, or that is not in {settings.message_certificates}",
            "put the certificate of this key there",
        ) from None
    except Exception as error:  # noqa: BLE001 — an invalid key raises many classes
        raise _describe_unusable(settings, error) from None


def _describe_unusable(settings: Settings, error: Exception) -> UsageError:
    return UsageError(
        f"messages cannot be signed with {settings.message_key}, {settings.message_certificate} and "
        f"{settings.message_certificates}: {error}",
        "give an RSA key without a password, its certificate, and a folder of certificates that holds nothing else; "
        "docs/how-to/workers.md says how to make them",
    )
