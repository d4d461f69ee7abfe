"""The encoder of a store in a process of its own: it reads its model while this one opens the store.

Half of what one cold question takes is the model, and nothing before the question's vector needs it. A thread would
not do: most of the rest is imports, which leave the interpreter's lock to nobody. The process is forked while nothing
is there yet that a fork could tear: no thread, no model, no open store.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np

from helix.errors import EncoderError
from helix.settings import load
from helix.snapshot import manifest as manifests
from helix.types import F32

_MOST = 1 << 16  # bytes of a message: a text of 4,000 characters, or a vector


def begin(root: str) -> EncoderBeside | None:
    """Begin to read the encoder of a store; None where that would gain nothing.

    Raises:
        StoreError: there is no store, or it is damaged.
    """
    # Elsewhere, a fork and the libraries that numpy calls do not get on.
    if sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2:
        return None
    name = manifests.current_name(Path(root))
    if name is None:
        return None
    fingerprint = manifests.load(Path(root), name).lineage.encoder
    return EncoderBeside(Path(root) / "encoders" / fingerprint, load().threads or 1, fingerprint)


class EncoderBeside:
    """Embeds questions as `helix.encoders.dense.Encoder` does; it is that, in a child of this process."""

    def __init__(self, folder: Path, threads: int, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self._folder = folder
        self._read = False  # that it has read its model
        # What is sent is received whole, and the end of either process is the end of the other's wait.
        self._near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._child = os.fork()
        if not self._child:
            self._near.close()
            _serve(far, folder, threads, fingerprint)
        far.close()

    @property
    def folder(self) -> Path:
        """Where it is.

        Raises:
            EncoderError: as `Encoder` does, or the process is gone.
        """
        if not self._read:
            self._heard()
            self._read = True
        return self._folder

    def query(self, text: str) -> F32:
        """Embed one query: float32[dim], unit length.

        Raises:
            EncoderError: as `Encoder` does, or the process is gone.
        """
        _ = self.folder
        with suppress(OSError):  # what became of it is heard below
            self._near.send(text.encode("utf-8", "surrogatepass"))
        return np.frombuffer(self._heard(), np.float32)

    def _heard(self) -> bytes:
        """The next answer."""
        try:
            said = self._near.recv(_MOST)
        except OSError as error:
            raise EncoderError(f"encoder gone: {error.strerror}") from None
        if said[:1] != b"+":
            raise EncoderError(said[1:].decode("utf-8", "replace") or "encoder gone: its process ended")
        return said[1:]


def _serve(asked: socket.socket, folder: Path, threads: int, fingerprint: str) -> None:
    """In the child: say whether the model could be read, then embed until nobody asks any more. Never returns."""
    with suppress(BaseException):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with its parent
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):  # an agent waits for whoever holds these
            os.dup2(nothing, stream)
        from helix.encoders.dense import Encoder

        try:
            encoder = Encoder(folder, threads, fingerprint)
        except EncoderError as error:
            asked.send(b"-" + error.what.encode("utf-8", "replace")[: _MOST - 1])
            raise
        asked.send(b"+")
        while text := asked.recv(_MOST):
            vector = encoder.query(text.decode("utf-8", "surrogatepass"))
            asked.send(b"+" + np.asarray(vector, np.float32).tobytes())
    os._exit(0)
