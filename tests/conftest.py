"""Fixtures of all tests: an exported encoder, a store of the bundled sample, a redis-server, the `helix` command."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.support import sharing
from tests.support.caching import EXPORTING, INDEXING, TRAINING, cache_folder, exclusive, rejuvenate
from tests.support.draws import register_profiles
from tests.support.forks import forking
from tests.support.labelled import REPORT
from tests.support.marks import set_marks
from tests.support.processes import can_connect, pick_port, wait_until

# No model hub, and no settings of the developer's.
os.environ["HF_HUB_OFFLINE"] = "1"
for name in [name for name in os.environ if name.startswith("HELIX_") and name != "HELIX_KERNELS"]:
    del os.environ[name]
os.environ["HELIX_HOOK_SECONDS"] = "60"  # a loaded machine needs more than the 3 s after which a hook gives up

if "PYTEST_XDIST_WORKER" in os.environ:  # the processes use every core already
    os.environ |= {"HELIX_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

SAMPLE = Path(str(files("helix") / "sample"))

SPARSE_SOURCES = ("tests/support/tiny_sparse.py", "tests/support/tiny_encoder.py")
ENCODER_SOURCES = ("helix/encoders/*.py", "helix/enrich/*.py", "pipelines/training/*.py", "pipelines/training/data/*/*")
STORE_SOURCES = ("helix/**/*.[cht]*", "helix/**/*.py", "helix/sample/**/*", "pipelines/**/*.py")

register_profiles()


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    set_marks(items)
    if path := getattr(config, "workerinput", {}).get(sharing.KEY):
        sharing.arrange(items, Path(path))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    if node.config.getoption("dist") == "loadgroup":
        node.workerinput[sharing.KEY] = str(_groups_of(node.config))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return sharing.GroupScheduling(config, log, _groups_of(config)) if config.getoption("dist") == "loadgroup" else None


def _groups_of(config: pytest.Config) -> Path:
    """Return the file of the groups, in the folder of the session."""
    folder: Path = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    return folder / "groups.json"


# A shell's `&` lets a process ignore Ctrl-C, and all that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def normal_priority() -> Iterator[None]:
    """The CPU priority of this process, which commands called in it would lower for all later tests."""
    from helix.util import priority

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(priority, "lower_priority", lambda *_: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_fsync() -> Iterator[None]:
    """Leave fsync out in this process: a kill loses nothing without it, and it makes a slow disk slower."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """HELIX_CACHE of the session, with the default encoder exported in it and its classifiers trained."""

    def make(folder: Path) -> None:
        from helix.encoders import registry
        from helix.encoders.dense import Encoder
        from helix.encoders.dense_export import cache_encoder
        from helix.settings import Settings
        from pipelines.training.router import load_router, load_type_model

        settings = Settings(cache=str(folder))
        encoder = Encoder(cache_encoder(registry.choose_encoder(settings), folder))
        assert isinstance(load_router(encoder, settings), bytes)
        assert not isinstance(load_type_model(encoder, settings), str)

    folder = _copy_once(tmp_path_factory, "cache", lambda: cache_folder("encoders", make, TRAINING, ENCODER_SOURCES))
    os.environ["HELIX_CACHE"] = str(folder)
    return folder


def _copy_once(factory: pytest.TempPathFactory, name: str, find: Callable[[], Path]) -> Path:
    """Copy a cached folder into that of the session, once over all of its processes."""
    base = factory.getbasetemp()
    target = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with exclusive(target.with_suffix(".lock")):
        if not target.is_dir():
            shutil.copytree(find(), target.with_suffix(".new"))
            target.with_suffix(".new").rename(target)
    return target


@pytest.fixture(scope="session")
def copying_t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small T5, trained to write words of its input."""
    from tests.support import tiny_t5

    sources = ("tests/support/tiny_t5.py", "helix/sample/**/*")
    return _copy_once(
        tmp_path_factory, "copying-t5", lambda: cache_folder("copying-t5", tiny_t5.copying, EXPORTING, sources)
    )


@pytest.fixture(scope="session")
def known_splade(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SPLADE whose expansions are known: a car is an automobile."""
    from tests.support import tiny_sparse

    return _copy_once(
        tmp_path_factory, "known-splade", lambda: cache_folder("splade", tiny_sparse.splade, EXPORTING, SPARSE_SOURCES)
    )


@pytest.fixture(scope="session")
def known_inference_free(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for items; questions are looked up in a table."""
    from tests.support import tiny_sparse

    make = tiny_sparse.inference_free
    return _copy_once(
        tmp_path_factory, "known-inference-free", lambda: cache_folder("splade-free", make, EXPORTING, SPARSE_SOURCES)
    )


@pytest.fixture(scope="session")
def sample_store(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A store of the bundled sample, to read only; `own_store` is a copy to change."""

    def make(folder: Path) -> None:
        from helix.settings import load
        from pipelines.embedded.ingest import ingest

        assert not ingest(folder, [SAMPLE], load()).refused

    made = cache_folder("sample-store", make, INDEXING, STORE_SOURCES)
    root = tmp_path_factory.mktemp("sample") / "store"  # each process has pins of its own
    shutil.copytree(made, root)
    rejuvenate(root)
    return root


@pytest.fixture
def own_store(sample_store: Path, tmp_path: Path) -> Path:
    """A copy of the sample store."""
    return copy_store(sample_store, tmp_path / "store")


@pytest.fixture(scope="module")
def served_store(sample_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sample store that the tests of a module serve; a fetched item leaves an event in it."""
    return copy_store(sample_store, tmp_path_factory.mktemp("served") / "store")


def copy_store(store: Path, target: Path) -> Path:
    """Copy a store without the pins of readers that other tests have open."""
    shutil.copytree(store, target)
    for pin in (target / "pins").iterdir():
        pin.unlink()
    return target


@pytest.fixture(scope="session")
def encoders() -> None:
    """A mark for a test that exports or trains a model of its own."""


@pytest.fixture(scope="session")
def stores() -> None:
    """A mark for a test that makes a store and takes long."""


@pytest.fixture(scope="session")
def processes() -> None:
    """A mark for a test that starts processes without another fixture of this file."""


@pytest.fixture(scope="session")
def forks() -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """The `helix` command, forked from a process that has imported it."""
    with forking() as run:
        yield run


@pytest.fixture
def run_helix(cache: Path, forks):
    """The `helix` command in a process of its own."""

    def run(*arguments: object, **environ: str) -> subprocess.CompletedProcess[str]:
        return forks([*map(str, arguments)], {**os.environ, **environ}, timeout=240)

    return run


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A redis-server with a port and a folder of its own."""
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("redis-server is not installed: run `make redis`")
    folder = tmp_path_factory.mktemp("redis")
    port = pick_port()
    server = subprocess.Popen(
        [binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--appendonly", "yes", "--save", ""],
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until(60, lambda: can_connect(port))
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait(60)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the measurements of this process to the one that reports."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["labelled"] = list(REPORT)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    REPORT.extend(getattr(node, "workeroutput", {}).get("labelled", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the precision and recall of enrichment on the labelled sets of tests/support/data."""
    if REPORT:
        terminalreporter.section("labelled sets")
        for line in REPORT:
            terminalreporter.write_line(line)
