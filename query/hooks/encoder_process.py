"""The store's encoder in a forked process, which reads the model while the parent opens the store.

Half of a cold question's time is the model, and only the question's vector needs it. A thread would not help: most of
the rest is imports, which hold the interpreter's lock. The fork comes before any thread, model or open store exists.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from helix.errors import EncoderError
from helix.settings import load
from helix.snapshot import manifest as manifests
from helix.types import F32

_YES = b"1"
_MAX_MESSAGE = 1 << 16  # bytes: a text of 4,000 characters, or a vector


def start_encoder(root: str) -> EncoderProcess | None:
    """Start to read a store's encoder; return None where a second process gains nothing.

    Raises:
        StoreError: the store is missing or damaged.
    """
    # Only Linux forks safely with the libraries that numpy calls.
    if sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2:
        return None
    name = manifests.read_current(Path(root))
    if name is None:
        return None
    fingerprint = manifests.load(Path(root), name).lineage.encoder
    return EncoderProcess(Path(root) / "encoders" / fingerprint, load().threads or 1, fingerprint)


class EncoderProcess:
    """A `helix.encoders.dense.Encoder` for questions, in a child of this process."""

    tokenizer = None
    """Only the child has one."""

    def __init__(self, folder: Path, threads: int, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self._folder = folder
        self._joins: bool | None = None  # whether it joins languages, once the child has read its model
        # SOCK_SEQPACKET keeps messages whole, and each side sees the other's end.
        self._socket, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._child = os.fork()
        if not self._child:
            self._socket.close()
            _run_child(far, folder, threads, fingerprint)
        far.close()

    @property
    def folder(self) -> Path:
        """The encoder's folder, once the model is read.

        Raises:
            EncoderError: as `Encoder` does, or the child is gone.
        """
        _ = self.joins_languages
        return self._folder

    @property
    def joins_languages(self) -> bool:
        """As of `Encoder`, once the model is read. Errors are those of `folder`."""
        if self._joins is None:
            self._joins = self._receive() == _YES
        return self._joins

    def query(self, text: str) -> F32:
        """Embed one question: float32[dim], unit length.

        Raises:
            EncoderError: as `Encoder` does, or the child is gone.
        """
        return self.start_query(text)()

    def start_query(self, text: str) -> Callable[[], F32]:
        """Send one question to the child; return a function that waits for its vector. Errors are those of `query`."""
        _ = self.folder
        with suppress(OSError):  # `_receive` reports the failure
            self._socket.send(text.encode("utf-8", "surrogatepass"))
        return lambda: np.frombuffer(self._receive(), np.float32)

    def _receive(self) -> bytes:
        """Return the content of the child's next message."""
        try:
            message = self._socket.recv(_MAX_MESSAGE)
        except OSError as error:
            raise EncoderError(f"encoder gone: {error.strerror}") from None
        if message[:1] != b"+":
            raise EncoderError(message[1:].decode("utf-8", "replace") or "encoder gone: its process ended")
        return message[1:]


def _run_child(parent: socket.socket, folder: Path, threads: int, fingerprint: str) -> None:
    """Report whether the model was read, then embed until the parent ends. Never return."""
    with suppress(BaseException):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the child ends with its parent
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):  # an agent waits for every holder of these
            os.dup2(null, stream)
        from helix.encoders.dense import Encoder

        try:
            encoder = Encoder(folder, threads, fingerprint)
        except EncoderError as error:
            parent.send(b"-" + error.what.encode("utf-8", "replace")[: _MAX_MESSAGE - 1])
            raise
        parent.send(b"+" + (_YES if encoder.joins_languages else b""))
        while text := parent.recv(_MAX_MESSAGE):
            vector = encoder.query(text.decode("utf-8", "surrogatepass"))
            parent.send(b"+" + np.asarray(vector, np.float32).tobytes())
    os._exit(0)
