"""What is built, and what it is worth to somebody who has nothing else: sdist, wheel, the core alone, the types."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tarfile
import time
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

import orjson
import pytest
from mcp import Client, StdioServerParameters
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import helix
from helix.errors import StoreError
from tests.contract.test_imports import HEAVY
from tests.support.paths import ROOT

PACKAGES = ("helix", "pipelines", "query", "workers")
KERNELS = "helix/native/_kernels.so"
QUESTION = "What did I tell Priya about vacation?"
NOW = "2026-06-01T00:00:00Z"


def run(*command: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """A process to its end, which has to be a good one unless `check=False`."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **{"check": False, **options})
    assert not options.get("check", True) or done.returncode == 0, done.stdout + done.stderr
    return done


def listed(*options: str) -> set[str]:
    """Files of the checkout that are there, as git names them."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: nothing says which files belong to it")
    names = run("git", "ls-files", "-z", *options, cwd=ROOT).stdout.split("\0")
    return {name for name in names if name and (ROOT / name).exists()}


# ------------------------------------------------------------------ what is built


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, the wheel made from it, and in `tree/` the wheel made from the checkout."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--outdir"]
    beside = subprocess.Popen([*build, folder / "tree", "--wheel", ROOT], stdout=subprocess.DEVNULL)
    run(*build, folder, ROOT)
    assert beside.wait(240) == 0
    return folder


def wheel(folder: Path) -> Path:
    (found,) = folder.glob("*.whl")
    return found


def names_in_wheel(folder: Path) -> set[str]:
    with zipfile.ZipFile(wheel(folder)) as opened:
        return set(opened.namelist())


def test_the_sdist_is_what_is_tracked(built: Path) -> None:
    (found,) = built.glob("*.tar.gz")
    with tarfile.open(found) as opened:
        names = {member.name.partition("/")[2] for member in opened if member.isfile()} - {"PKG-INFO"}
    assert not listed() - names
    assert not names - listed("--cached", "--others", "--exclude-standard")


def test_the_wheel_is_the_packages_and_their_data(built: Path) -> None:
    names = names_in_wheel(built)
    sources = {name for name in listed(*PACKAGES) if not name.endswith((".c", ".h"))}
    assert not sources - names
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    information = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    assert any(name.endswith("/licenses/LICENSE") for name in information)
    rest = names - information - {KERNELS}
    assert len(rest) == len(names) - len(information) - 1
    assert not rest - listed("--cached", "--others", "--exclude-standard", *PACKAGES)
    assert not {name for name in rest if name.endswith((".c", ".h"))}


def test_a_wheel_from_the_sdist_is_that_from_the_checkout(built: Path) -> None:
    assert names_in_wheel(built) == names_in_wheel(built / "tree")


# ------------------------------------------------------------------ the core alone


@pytest.fixture(scope="module", params=["linked", pytest.param("installed", marks=pytest.mark.soak)])
def core(request: pytest.FixtureRequest, built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`bin/` of an empty environment with the wheel and what its core requires.

    Either pip finds and installs that, which takes most of a minute, or it is linked from where the tests run.
    """
    root = tmp_path_factory.mktemp("core")
    return linked(root, wheel(built)) if request.param == "linked" else installed(root, wheel(built))


@pytest.fixture(scope="module")
def ingesting(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with the extra `workers`."""
    return linked(tmp_path_factory.mktemp("workers"), wheel(built), "workers")


def installed(root: Path, found: Path, *options: object) -> Path:
    """Have pip install a wheel into a new environment; gives its `bin/`."""
    run(sys.executable, "-m", "venv", "--without-pip", root)
    into = ("--quiet", "--python", root / "bin" / "python")
    constrained = ("--no-compile", "--constraint", ROOT / "constraints.txt")
    run(sys.executable, "-m", "pip", *into, "install", *constrained, *options, found)
    return root / "bin"


def linked(root: Path, found: Path, extra: str = "") -> Path:
    """Have pip install a wheel, and link what it requires; gives the new environment's `bin/`."""
    binaries = installed(root, found, "--no-index", "--no-deps")
    for each in required(own(binaries), extra):
        link(each, site_packages(binaries))
    return binaries


def site_packages(binaries: Path) -> Path:
    (found,) = binaries.parent.glob("lib/python*/site-packages")
    return found


def own(binaries: Path) -> Distribution:
    """Helix as an environment has it."""
    (found,) = Distribution.discover(name="helix-recall", path=[str(site_packages(binaries))])
    return found


def required(by: Distribution, *extras: str) -> list[Distribution]:
    """What a distribution and its extras require, and what that requires in turn, as installed where the tests run."""
    waiting, found = [(by, extra) for extra in ("", *extras)], {}
    while waiting:
        one, extra = waiting.pop()
        for line in one.requires or ():
            asked = Requirement(line)
            if asked.marker is not None and not asked.marker.evaluate({"extra": extra}):
                continue
            for key in ((canonicalize_name(asked.name), further) for further in ("", *asked.extras)):
                if key not in found:
                    found[key] = distribution(asked.name)
                    waiting.append((found[key], key[1]))
    return [each for (_, extra), each in found.items() if not extra]


def link(each: Distribution, site: Path) -> None:
    """Show an environment a distribution of another, but for its commands: packages whole, other files one by one."""
    files = [file for file in each.files or () if ".." not in file.parts]
    packages = {file.parts[0] for file in files if file.parts[1:] == ("__init__.py",)}
    for name in packages | {str(file) for file in files if file.parts[0] not in packages}:
        real = Path(str(each.locate_file(name)))
        if real.exists():
            (site / name).parent.mkdir(parents=True, exist_ok=True)
            (site / name).symlink_to(real)


@pytest.fixture
def environ(cache: Path, tmp_path: Path) -> dict[str, str]:
    """Nothing that leads to other packages or models."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "HELIX_CACHE": str(cache), "HF_HOME": str(tmp_path / "hub")}


def test_what_only_ingest_needs_is_not_there(core: Path, environ: dict[str, str]) -> None:
    names = (*HEAVY, "redis", "watchfiles", "pytest", "langchain_core", "llama_index")
    statement = f"import importlib.util; print([n for n in {names!r} if importlib.util.find_spec(n)])"
    assert run(core / "python", "-I", "-c", statement, env=environ).stdout == "[]\n"


def test_every_module_that_answers_can_be_imported(core: Path, environ: dict[str, str], built: Path) -> None:
    imported = import_all(core, environ, built, "helix", "query")
    assert {"helix.sdk.memory", "helix.snapshot.writer", "query.rest"} <= imported


def import_all(binaries: Path, environ: dict[str, str], built: Path, *packages: str) -> set[str]:
    """Import every module of packages but those that need a framework or a peer; gives their names."""
    paths = {Path(name) for name in names_in_wheel(built) if name.startswith(packages) and name.endswith(".py")}
    elsewhere = {"helix/adapters", "pipelines/bench/peers"}
    names = {".".join(path.with_suffix("").parts) for path in paths if path.parent.as_posix() not in elsewhere}
    statement = f"import importlib; [importlib.import_module(name) for name in {sorted(names)!r}]"
    run(binaries / "python", "-I", "-c", statement, env=environ)
    return names


def test_the_command_says_what_there_is(core: Path, environ: dict[str, str]) -> None:
    assert run(core / "helix", "--version", env=environ).stdout == f"helix {helix.__version__}\n"
    said = run(core / "helix", "--help", env=environ)
    assert not said.stderr
    commands = {entry.name for entry in own(core).entry_points.select(group="helix.commands")}
    assert {"ingest", "recall", "worker"} <= commands
    assert commands <= set(said.stdout.split())


def test_every_command_helps_or_names_its_extra(core: Path, environ: dict[str, str]) -> None:
    statement = """
from importlib.metadata import entry_points
from helix.cli.main import main
for entry in entry_points(group="helix.commands"):
    print("==", entry.name, main([entry.name, "--help"]), flush=True)
"""
    done = run(core / "python", "-I", "-c", statement, env=environ)
    ended = {words[1]: words[2] for line in done.stdout.splitlines() if (words := line.split())[:1] == ["=="]}
    assert len(ended) == len(own(core).entry_points.select(group="helix.commands"))
    refused = {name for name, status in ended.items() if status != "0"}
    assert {ended[name] for name in refused} <= {"4"}
    assert refused <= {"worker", "up"}  # what they may be told is what Celery may
    assert done.stderr.count("pip install 'helix-recall[workers]'") == len(refused)


@pytest.mark.parametrize("command", ["ingest", "worker", "watch"])
def test_what_needs_an_extra_names_it(core: Path, environ: dict[str, str], tmp_path: Path, command: str) -> None:
    inputs = [helix.__path__[0] + "/sample"] if command == "ingest" else []
    done = run(core / "helix", command, *inputs, env={**environ, "HELIX_STORE": str(tmp_path / "new")}, check=False)
    assert done.returncode == 4
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"helix {command}: ")
    assert "helix-recall[workers]" in line


@pytest.mark.parametrize("extra", ["langchain", "llamaindex"])
def test_an_adapter_without_its_framework_names_the_extra(core: Path, environ: dict[str, str], extra: str) -> None:
    module = {"langchain": "langchain", "llamaindex": "llama_index"}[extra]
    done = run(core / "python", "-I", "-c", f"import helix.adapters.{module}", env=environ, check=False)
    assert f"is not installed; pip install 'helix-recall[{extra}]'" in done.stderr.splitlines()[-1]


def test_it_looks_at_a_store(core: Path, environ: dict[str, str], own_store: Path) -> None:
    for command in (["status"], ["verify"], ["sql", "SELECT count(*) FROM items"]):
        run(core / "helix", *command, env={**environ, "HELIX_STORE": str(own_store)})


def test_it_answers_as_where_everything_is(core: Path, environ: dict[str, str], own_store: Path) -> None:
    expected = [item.id for item in helix.open(own_store).recall(QUESTION, k=5, now=NOW).items]
    assert len(expected) == 5
    environ |= {"HELIX_STORE": str(own_store)}
    found = orjson.loads(run(core / "helix", "recall", QUESTION, "--k", 5, "--now", NOW, "--json", env=environ).stdout)
    assert [item["id"] for item in found["items"]] == expected
    assert over_rest(core, environ, QUESTION, k=5, now=NOW) == expected
    assert over_mcp(core, environ, query=QUESTION, k=5)[0] == expected[0]


def over_rest(core: Path, environ: dict[str, str], question: str, **options: Any) -> list[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([core / "helix", "serve", "--port", str(port)], env=environ, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                with helix.connect(f"http://127.0.0.1:{port}") as remote:
                    return [item.id for item in remote.recall(question, **options).items]
            except StoreError:  # it is not there yet
                assert server.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
    finally:
        server.terminate()
        server.wait(20)


def over_mcp(core: Path, environ: dict[str, str], **question: Any) -> list[str]:
    async def ask() -> Any:
        async with Client(StdioServerParameters(command=str(core / "helix"), args=["mcp"], env=environ)) as client:
            return await client.call_tool("recall", question)

    return [item["id"] for item in asyncio.run(ask()).structured_content["items"]]


def test_it_takes_in_where_a_store_brings_its_encoder(
    core: Path, environ: dict[str, str], own_store: Path, tmp_path: Path
) -> None:
    note = tmp_path / "note.md"
    note.write_text("# Kitchen\n\nThe zirconium whisk lies in the third drawer.\n", "utf-8")
    environ |= {"HELIX_STORE": str(own_store)}
    run(core / "helix", "ingest", note, env=environ)
    assert "third drawer" in run(core / "helix", "recall", "zirconium whisk", "--k", 1, env=environ).stdout


def test_with_workers_every_module_and_command_is_there(ingesting: Path, environ: dict[str, str], built: Path) -> None:
    imported = import_all(ingesting, environ, built, *PACKAGES)
    assert {"pipelines.ingest.ingest", "pipelines.ingest.watch", "workers.tasks"} <= imported
    commands = own(ingesting).entry_points.select(group="helix.commands")
    assert {entry.module for entry in commands} <= imported
    assert all(callable(entry.load()) for entry in commands)  # the same from here: the wheel is made of it


@pytest.mark.soak
def test_with_workers_a_new_store_is_made(ingesting: Path, environ: dict[str, str], tmp_path: Path) -> None:
    environ |= {"HELIX_STORE": str(tmp_path / "new"), "HELIX_CACHE": str(tmp_path / "cache")}
    run(ingesting / "helix", "ingest", helix.__path__[0] + "/sample", env=environ)  # exports an encoder
    assert "I told Priya" in run(ingesting / "helix", "recall", QUESTION, env=environ).stdout


# ------------------------------------------------------------------ the types


def test_a_users_script_is_checked_against_our_types(core: Path, environ: dict[str, str], tmp_path: Path) -> None:
    """mypy --strict also reports an `ignore` that hides nothing: so the wrong call is seen to be one."""
    script = tmp_path / "script.py"
    script.write_text(
        """
import helix
from helix.adapters import Recalls
from helix.types import Bundle, Item
from pipelines.ingest import Report
from query.wire import RecallRequest
from workers.send import length


def best(memory: Recalls) -> Item:
    found: Bundle = memory.recall("why sqlite", k=3)
    return found.items[0]


def score(memory: helix.Memory, request: RecallRequest, report: Report) -> float:
    if memory.refresh():
        memory.recall(request.query, k="three")  # type: ignore[arg-type]
    return best(memory).score + request.k + report.items


print(score(helix.open("memory"), RecallRequest(query="why"), Report()), length)
print(best(helix.connect("http://127.0.0.1:8765")).text)
""",
        "utf-8",
    )
    done = run(
        *(sys.executable, "-m", "mypy", "--strict", "--python-executable", core / "python"),
        *("--cache-dir", tmp_path / "cache", script),
        env=environ,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stdout
