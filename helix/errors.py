"""The errors of Helix. A message names the fault, its place and the remedy."""

from __future__ import annotations


class HelixError(Exception):
    """Base class of all errors of Helix. `exit_status` is the status of the command line."""

    exit_status = 1

    def __init__(self, what: str, remedy: str = "") -> None:
        from helix.util.sanitise import MAX_MESSAGE, sanitise_name  # here: agent hooks wait for this module

        # Both may quote a log, and agents read them.
        self.what = sanitise_name(what, MAX_MESSAGE)
        self.remedy = sanitise_name(remedy, MAX_MESSAGE)
        super().__init__(f"{self.what}; {self.remedy}" if remedy else self.what)


class UsageError(HelixError):
    """A wrong call: an unknown name, a value out of range."""

    exit_status = 2


class AccessError(HelixError):
    """A refused caller: no key, a wrong key, a missing permission, or too many requests."""

    exit_status = 2


class InputRefused(HelixError):
    """A refused input; the rest of the batch is accepted."""

    exit_status = 3


class StoreError(HelixError):
    """An unusable store: missing, unwritable, damaged, or of a newer format."""

    exit_status = 4


class StoreBusy(StoreError):
    """A store that another process writes."""


class NewerStore(StoreError):
    """A store of a newer Helix, with an unknown format or feature."""


class EncoderError(HelixError):
    """No usable encoder: its weights are missing, damaged, or not those of the lineage."""

    exit_status = 4


class EngineError(HelixError):
    """No usable vector engine: it does not answer, or holds no export of this store."""

    exit_status = 4


class KernelsError(HelixError):
    """Compiled kernels that were made for another machine or release."""

    exit_status = 4


class Damaged(StoreError):
    """Bytes that do not match their digest."""
