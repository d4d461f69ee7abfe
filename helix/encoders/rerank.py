"""The rerankers that the settings name. Needs onnxruntime and tokenizers only."""

from __future__ import annotations

import threading

from helix.encoders.cross import CrossEncoder
from helix.encoders.late import LateEncoder, open_late
from helix.encoders.rerank_model import find_exported
from helix.settings import Settings


class Rerankers:
    """The rerankers that the settings name, each opened at its first use. Safe to share between threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._late: LateEncoder | None = None
        self._cross: CrossEncoder | None = None

    @property
    def late(self) -> LateEncoder | None:
        """The late-interaction encoder; None if `late_encoder` names none.

        Raises:
            EncoderError: it does not exist, is not exported, is damaged, or is of the other kind.
        """
        with self._lock:
            if self._late is None and self._settings.late_encoder:
                self._late = open_late(
                    find_exported(self._settings.late_encoder, self._settings), self._settings.threads
                )
            return self._late

    @property
    def cross(self) -> CrossEncoder | None:
        """The cross-encoder; None if `cross_encoder` names none.

        Raises:
            EncoderError: it does not exist, is not exported, is damaged, or is of the other kind.
        """
        with self._lock:
            if self._cross is None and self._settings.cross_encoder:
                folder = find_exported(self._settings.cross_encoder, self._settings)
                self._cross = CrossEncoder(folder, self._settings.threads)
            return self._cross
