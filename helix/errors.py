"""What can go wrong, said once: what happened, where, and what to do about it."""

from __future__ import annotations


class HelixError(Exception):
    """Root of every error Helix raises on purpose. `exit_status` is what the command line returns for it."""

    exit_status = 1

    def __init__(self, what: str, remedy: str = "") -> None:
        from helix.util.sanitise import MAX_MESSAGE, sanitise_name  # here: an agent's hook waits for this module

        # Names that somebody's log made up stand in both, and agents read them.
        self.what = sanitise_name(what, MAX_MESSAGE)
        self.remedy = sanitise_name(remedy, MAX_MESSAGE)
        super().__init__(f"{self.what}; {self.remedy}" if remedy else self.what)


class UsageError(HelixError):
    """The call itself is wrong: an unknown name, a value out of range."""

    exit_status = 2


class AccessError(HelixError):
    """Who asks may not: no key, a wrong one, not this, not so often."""

    exit_status = 2


class InputRefused(HelixError):
    """One input cannot be taken; the rest of the batch can."""

    exit_status = 3


class StoreError(HelixError):
    """The store is unusable as it stands: missing, unwritable, damaged, or of a newer format."""

    exit_status = 4


class NewerStore(StoreError):
    """A store that a newer Helix wrote, in a format or with features this one does not know."""


class EncoderError(HelixError):
    """No usable encoder: weights missing, damaged, or not the ones the lineage was built with."""

    exit_status = 4


class KernelsError(HelixError):
    """The compiled kernels are missing, or not for this machine or this release."""

    exit_status = 4


class Damaged(StoreError):
    """Bytes that are not what their digest says."""
