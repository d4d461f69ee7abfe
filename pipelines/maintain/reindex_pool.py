"""Making parts in parallel processes of one machine."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path

from helix.encoders.dense import Encoder
from helix.encoders.token_counter import TokenCounter
from helix.errors import StoreError
from helix.settings import Settings
from helix.util.priority import lower_priority
from pipelines.ingest.enrich import enrich
from pipelines.ingest.part import part_folder, pipeline_fingerprint


def make_parts(
    root: Path, documents: Sequence[str], encoder: Encoder, settings: Settings, made: Callable[[int], None]
) -> None:
    """Enrich documents in HELIX_THREADS processes, by default one a core.

    Args:
        made: called with the number of parts made so far.
    """
    jobs = min(len(documents), settings.threads or os.cpu_count() or 1)
    if jobs <= 1:
        for i, document in enumerate(documents):
            enrich(root, document, encoder, _counter(encoder.folder), settings)
            made(i + 1)
        return
    folder, fingerprint = encoder.folder, encoder.spec.fingerprint
    single = replace(settings, threads=1)
    with ProcessPoolExecutor(jobs, get_context("spawn"), _start_process) as pool:
        try:
            with _delay_interrupts():  # a process that is still starting is not among the active children
                tasks = [pool.submit(make_part, root, document, folder, fingerprint, single) for document in documents]
            for i, task in enumerate(tasks):
                task.result()
                made(i + 1)
        except BrokenProcessPool:
            raise StoreError(
                f"a process that enriched documents of {root} was killed",
                "check whether memory ran out; nothing was swapped, and the next run continues from here",
            ) from None
        except KeyboardInterrupt:  # the terminal sends it to this process alone
            for child in active_children():
                child.kill()
            raise


@contextmanager
def _delay_interrupts() -> Iterator[None]:
    """Delay Ctrl-C until the block is done."""
    if threading.current_thread() is not threading.main_thread():  # no other thread is interrupted
        yield
        return
    held: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held:
        signal.raise_signal(held[0])


def _start_process() -> None:
    """Lower a pool process's priority, and end it when its parent dies for any reason."""
    os.setsid()
    lower_priority()
    parent = parent_process()

    def watch() -> None:
        if parent:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def make_part(root: Path, document: str, folder: Path, fingerprint: str, settings: Settings) -> None:
    """Enrich one document in this process; return at once where its part is present."""
    if part_folder(root, document, pipeline_fingerprint(fingerprint, settings)).is_dir():
        return
    encoder = _load_encoder(folder, fingerprint, settings.threads)
    enrich(root, document, encoder, _counter(folder), settings)


@cache
def _load_encoder(folder: Path, fingerprint: str, threads: int) -> Encoder:
    return Encoder(folder, threads, fingerprint)


@cache
def _counter(folder: Path) -> TokenCounter:
    return TokenCounter(folder)
