"""Ed25519 keys (RFC 8032) of members: one file a key, readable by its owner only."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from helix.errors import UsageError
from helix.snapshot import paths

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PUBLIC: Final = re.compile(r"[A-Za-z0-9+/]{43}=")
"""A public key: 32 bytes in base64."""

SIGNATURE: Final = re.compile(r"[A-Za-z0-9+/]{86}==")
"""A signature: 64 bytes in base64."""


class SigningKey:
    """A private key; no message shows it."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = base64.b64encode(key.public_key().public_bytes_raw()).decode("ascii")
        """The public key in base64."""

    def dump(self) -> bytes:
        """Return the key in PEM, without a password, for its file."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def sign(self, data: bytes) -> str:
        """Return the signature of some bytes in base64."""
        return base64.b64encode(self._key.sign(data)).decode("ascii")


def make_key() -> SigningKey:
    """Make a key.

    Raises:
        UsageError: the package cryptography is missing.
    """
    _require_package()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return SigningKey(Ed25519PrivateKey.generate())


def write_key(key: SigningKey, path: Path) -> None:
    """Write a key to a new file, durably.

    Raises:
        UsageError: the file exists.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise UsageError(f"the key {path} exists", "use it, or name another file") from None
    with open(handle, "wb") as file:
        file.write(key.dump())
        file.flush()
        os.fsync(file.fileno())
    paths.sync_folder(path.parent)


def read_key(path: Path) -> SigningKey:
    """Read a key from its file.

    Raises:
        UsageError: it is missing, no Ed25519 key, readable by others, or the package cryptography is missing.
    """
    _require_package()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        if path.stat().st_mode & 0o077:
            raise UsageError(f"others can read the key {path}", f"run 'chmod 600 {path}'")
        key = load_pem_private_key(path.read_bytes()[:10_000], None)
    except OSError as error:
        raise UsageError(
            f"the key {path} cannot be read: {error.strerror}", "run 'helix team join' to make one"
        ) from None
    except (ValueError, TypeError):
        raise UsageError(f"{path} is no private key without a password", "name an Ed25519 key in PEM") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"{path} is no Ed25519 key", "name an Ed25519 key in PEM")
    return SigningKey(key)


def verify(public: str, data: bytes, signature: str) -> bool:
    """Return whether a signature of some bytes is that of a public key.

    Raises:
        UsageError: the package cryptography is missing.
    """
    _require_package()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if not (PUBLIC.fullmatch(public) and SIGNATURE.fullmatch(signature)):
        return False
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public))
        key.verify(base64.b64decode(signature), data)
    except (InvalidSignature, ValueError):
        return False
    return True


def format_fingerprint(public: str) -> str:
    """Return the fingerprint of a public key, to be compared by eye: "a1b2 c3d4 …", 80 bits of its SHA-256."""
    digest = hashlib.sha256(base64.b64decode(public)).hexdigest()[:20]
    return " ".join(digest[at : at + 4] for at in range(0, len(digest), 4))


def _require_package() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise UsageError(
            "a team's entries cannot be signed or checked without the package cryptography",
            "run 'pip install helix-recall[team]'",
        ) from None
