"""Signed messages: Celery's `auth` serializer, with the certificates of everybody who may send.

Celery signs the body, and a signature does not say which task it is for. It is checked here, before anything of the
body is read: Celery itself takes the kind of what was signed, which need not be JSON, from beside it.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kombu.serialization import dumps

from helix.errors import UsageError
from helix.settings import Settings
from workers.messages import Form, Refused

if TYPE_CHECKING:
    from celery import Celery

TYPE: Final = "application/data"
"""What Celery calls a signed body."""

_BETWEEN: Final = b"\0\1"
"""Of the parts of one."""


def form_of(settings: Settings) -> Form:
    """The form of messages: plain, or signed where the settings name what that takes.

    Raises:
        UsageError: they name a part of it, or something is not what it should be.
    """
    given = (settings.message_key, settings.message_certificate, settings.message_certificates)
    if not any(given):
        return Form()
    if not all(given):
        raise UsageError(
            "HELIX_MESSAGE_KEY, HELIX_MESSAGE_CERTIFICATE and HELIX_MESSAGE_CERTIFICATES are not all given",
            "name all three to have messages signed, or none",
        )
    try:
        from celery.security.certificate import FSCertStore
        from celery.security.utils import get_digest_algorithm
    except ImportError:
        raise UsageError("messages cannot be signed without the package cryptography", "install it") from None
    if not Path(settings.message_certificates).is_dir():
        raise UsageError(
            f"HELIX_MESSAGE_CERTIFICATES={settings.message_certificates!r} is no folder",
            "name the folder with the certificate of everybody who may send",
        )
    try:
        known = FSCertStore(settings.message_certificates)
    except Exception as error:  # noqa: BLE001  as many classes as there are ways to be no certificate
        raise _unusable(settings, error) from None
    digest = get_digest_algorithm()

    def opened(body: bytes) -> bytes:
        try:
            signer, signature, _, _, content = base64.b64decode(body, validate=True).split(_BETWEEN, 4)
            known[base64.b64decode(signer)].verify(content, base64.b64decode(signature), digest)
        except Exception:  # noqa: BLE001  there is a class of its own for each thing that can be wrong with a signature
            raise Refused("signature") from None
        return content

    return Form("auth", TYPE, opened)


def use(app: Celery, settings: Settings, form: Form) -> None:
    """Have an application sign what it sends.

    Raises:
        UsageError: the key or a certificate is not usable, or the two do not fit.
    """
    if form.serializer != "auth":
        return
    try:
        app.setup_security(
            key=settings.message_key,
            cert=settings.message_certificate,
            store=settings.message_certificates,
        )
        form.opened(_bytes(dumps([], form.serializer)[2]))
    except Refused:
        raise UsageError(
            f"what {settings.message_key} signs, no worker would take: it does not fit {settings.message_certificate}, "
            f"or that is not in {settings.message_certificates}",
            "put the certificate that was made with this key there",
        ) from None
    except Exception as error:  # noqa: BLE001  or no key
        raise _unusable(settings, error) from None


def _bytes(body: Any) -> bytes:
    return body if isinstance(body, bytes) else str(body).encode()


def _unusable(settings: Settings, error: Exception) -> UsageError:
    return UsageError(
        f"messages cannot be signed with {settings.message_key}, {settings.message_certificate} and "
        f"{settings.message_certificates}: {error}",
        "give an RSA key without a password, its certificate, and a folder of certificates that holds nothing else; "
        "docs/security.md says how to make them",
    )
