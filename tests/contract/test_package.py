"""The distributions: sdist and wheel, an environment with the core only, and the types."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

import orjson
import pytest
from mcp import StdioServerParameters
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import helix
from tests.contract.test_imports import HEAVY
from tests.support.clients import call_tool
from tests.support.paths import ROOT
from tests.support.processes import pick_port, wait_until
from tests.support.serving import get_status

pytestmark = pytest.mark.usefixtures("processes")  # for its mark

PACKAGES = ("helix", "pipelines", "query", "workers")
KERNELS = "helix/native/_kernels.so"
QUESTION = "What did I tell Priya about vacation?"
NOW = "2026-06-01T00:00:00Z"


def run(*command: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a process to its end; it must succeed, unless `check=False`."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **{"check": False, **options})
    assert not options.get("check", True) or done.returncode == 0, done.stdout + done.stderr
    return done


def list_files(*options: str) -> set[str]:
    """Return the existing files of the checkout, as git names them."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: nothing says which files belong to it")
    names = run("git", "ls-files", "-z", *options, cwd=ROOT).stdout.split("\0")
    return {name for name in names if name and (ROOT / name).exists()}


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, the wheel made from it, and in `tree/` the wheel made from the checkout.

    Its name is the first of the module's fixtures, so that one process of a run has all of its tests.
    """
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--outdir"]
    other = subprocess.Popen([*build, folder / "tree", "--wheel", ROOT], stdout=subprocess.DEVNULL)
    run(*build, folder, ROOT)
    assert other.wait(240) == 0
    return folder


def find_wheel(folder: Path) -> Path:
    (found,) = folder.glob("*.whl")
    return found


def list_wheel(folder: Path) -> set[str]:
    with zipfile.ZipFile(find_wheel(folder)) as opened:
        return set(opened.namelist())


def test_the_distributions_have_the_tracked_files(builds: Path) -> None:
    (found,) = builds.glob("*.tar.gz")
    with tarfile.open(found) as opened:
        sdist = {member.name.partition("/")[2] for member in opened if member.isfile()} - {"PKG-INFO"}
    assert not list_files() - sdist
    assert not sdist - list_files("--cached", "--others", "--exclude-standard")
    wheel = list_wheel(builds)
    assert wheel == list_wheel(builds / "tree")
    sources = {name for name in list_files(*PACKAGES) if not name.endswith((".c", ".h"))}
    assert not sources - wheel
    assert {f"{package}/py.typed" for package in PACKAGES} <= wheel
    information = {name for name in wheel if name.split("/")[0].endswith(".dist-info")}
    assert any(name.endswith("/licenses/LICENSE") for name in information)
    rest = wheel - information - {KERNELS}
    assert len(rest) == len(wheel) - len(information) - 1
    assert not rest - list_files("--cached", "--others", "--exclude-standard", *PACKAGES)
    assert not {name for name in rest if name.endswith((".c", ".h"))}


@pytest.fixture(scope="module", params=["linked", pytest.param("installed", marks=pytest.mark.soak)])
def core(request: pytest.FixtureRequest, builds: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`bin/` of a new environment with the wheel and the requirements of its core.

    pip installs them, which takes most of a minute, or they are linked from the environment of the tests.
    """
    root = tmp_path_factory.mktemp("core")
    return install_linked(root, find_wheel(builds)) if request.param == "linked" else install(root, find_wheel(builds))


@pytest.fixture(scope="module")
def ingesting(builds: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with the extra `workers`."""
    return install_linked(tmp_path_factory.mktemp("workers"), find_wheel(builds), "workers")


def install(root: Path, wheel: Path, *options: object) -> Path:
    """Install a wheel into a new environment with pip; return its `bin/`."""
    run(sys.executable, "-m", "venv", "--without-pip", root)
    into = ("--quiet", "--python", root / "bin" / "python")
    constrained = ("--no-compile", "--constraint", ROOT / "constraints.txt")
    run(sys.executable, "-m", "pip", *into, "install", *constrained, *options, wheel)
    return root / "bin"


def install_linked(root: Path, wheel: Path, extra: str = "") -> Path:
    """Install a wheel with pip, and link its requirements; return the new environment's `bin/`."""
    binaries = install(root, wheel, "--no-index", "--no-deps")
    for each in list_required(find_helix(binaries), extra):
        link(each, site_packages(binaries))
    return binaries


def site_packages(binaries: Path) -> Path:
    (found,) = binaries.parent.glob("lib/python*/site-packages")
    return found


def find_helix(binaries: Path) -> Distribution:
    (found,) = Distribution.discover(name="helix-recall", path=[str(site_packages(binaries))])
    return found


def list_required(by: Distribution, *extras: str) -> list[Distribution]:
    """Return all requirements of a distribution and its extras, as installed for the tests."""
    waiting, found = [(by, extra) for extra in ("", *extras)], {}
    while waiting:
        one, extra = waiting.pop()
        for line in one.requires or ():
            wanted = Requirement(line)
            if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
                continue
            for key in ((canonicalize_name(wanted.name), further) for further in ("", *wanted.extras)):
                if key not in found:
                    found[key] = distribution(wanted.name)
                    waiting.append((found[key], key[1]))
    return [each for (_, extra), each in found.items() if not extra]


def link(each: Distribution, site: Path) -> None:
    """Link a distribution into another environment, without its commands: packages as folders, other files singly."""
    files = [file for file in each.files or () if ".." not in file.parts]
    packages = {file.parts[0] for file in files if file.parts[1:] == ("__init__.py",)}
    for name in packages | {str(file) for file in files if file.parts[0] not in packages}:
        real = Path(str(each.locate_file(name)))
        if real.exists():
            (site / name).parent.mkdir(parents=True, exist_ok=True)
            (site / name).symlink_to(real)


@pytest.fixture
def environ(cache: Path, tmp_path: Path) -> dict[str, str]:
    """An environment without other packages and models."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "HELIX_CACHE": str(cache), "HF_HOME": str(tmp_path / "hub")}


def test_the_core_imports_every_module_of_helix_and_query(core: Path, environ: dict[str, str], builds: Path) -> None:
    names = (*HEAVY, "redis", "faiss", "uvloop", "onnx", "pytest", "langchain_core", "llama_index")
    statement = f"import importlib.util; print([n for n in {names!r} if importlib.util.find_spec(n)])"
    assert run(core / "python", "-I", "-c", statement, env=environ).stdout == "[]\n"
    imported = import_all(core, environ, builds, "helix", "query")
    assert {"helix.sdk.memory", "helix.snapshot.writer", "query.rest"} <= imported


def import_all(binaries: Path, environ: dict[str, str], builds: Path, *packages: str) -> set[str]:
    """Import every module of packages, except those for a framework, a peer or an engine; return their names."""
    paths = {Path(name) for name in list_wheel(builds) if name.startswith(packages) and name.endswith(".py")}
    elsewhere = {"helix/adapters", "pipelines/bench/peers"}
    engines = {Path("helix/engines") / f"{name}.py" for name in ("lancedb", "opensearch", "qdrant", "qdrant_edge")}
    paths = {path for path in paths - engines if path.parent.as_posix() not in elsewhere}
    names = {".".join(path.with_suffix("").parts) for path in paths}
    statement = f"import importlib; [importlib.import_module(name) for name in {sorted(names)!r}]"
    run(binaries / "python", "-I", "-c", statement, env=environ)
    return names


def test_the_core_lists_all_commands_and_shows_their_help(core: Path, environ: dict[str, str]) -> None:
    assert run(core / "helix", "--version", env=environ).stdout == f"helix {helix.__version__}\n"
    done = run(core / "helix", "--help", env=environ)
    assert not done.stderr
    commands = {entry.name for entry in find_helix(core).entry_points.select(group="helix.commands")}
    assert {"ingest", "recall", "worker"} <= commands
    assert commands <= set(done.stdout.split())
    done = call_commands(core, environ, *([name, "--help"] for name in sorted(commands)))
    assert (set(json.loads(done.stdout.splitlines()[-1])), done.stderr) == ({0}, "")


def call_commands(core: Path, environ: dict[str, str], *calls: list[str]) -> subprocess.CompletedProcess[str]:
    """Call commands one after the other in a process; the last line of its output lists their statuses."""
    statement = f"from helix.cli.main import main; print([main(call) for call in {list(calls)!r}], flush=True)"
    return run(core / "python", "-I", "-c", statement, env=environ)


def test_commands_and_adapters_name_their_missing_extra(core: Path, environ: dict[str, str], tmp_path: Path) -> None:
    environ = {**environ, "HELIX_STORE": str(tmp_path / "new")}
    commands = ("worker", "up")
    done = call_commands(core, environ, *([command] for command in commands))
    assert json.loads(done.stdout.splitlines()[-1]) == [4] * len(commands)
    for command, line in zip(commands, done.stderr.splitlines(), strict=True):
        assert line.startswith(f"helix {command}: ")
        assert "helix-recall[workers]" in line
    for extra, module in (("langchain", "langchain"), ("llamaindex", "llama_index")):
        done = run(core / "python", "-I", "-c", f"import helix.adapters.{module}", env=environ, check=False)
        assert f"is not installed; pip install 'helix-recall[{extra}]'" in done.stderr.splitlines()[-1]


def test_the_core_reads_answers_and_ingests_with_the_encoder_of_a_store(
    core: Path, environ: dict[str, str], own_store: Path, tmp_path: Path
) -> None:
    environ |= {"HELIX_STORE": str(own_store)}
    done = call_commands(core, environ, ["status"], ["verify"], ["sql", "SELECT count(*) FROM items"])
    assert json.loads(done.stdout.splitlines()[-1]) == [0, 0, 0]
    expected = [item.id for item in helix.open(own_store).recall(QUESTION, k=5, now=NOW).items]
    assert len(expected) == 5
    found = orjson.loads(run(core / "helix", "recall", QUESTION, "--k", 5, "--now", NOW, "--json", env=environ).stdout)
    assert [item["id"] for item in found["items"]] == expected
    assert recall_over_rest(core, environ, QUESTION, k=5, now=NOW) == expected
    assert recall_over_mcp(core, environ, query=QUESTION, k=5)[0] == expected[0]
    note = tmp_path / "note.md"
    note.write_text("# Kitchen\n\nThe zirconium whisk is in the third drawer.\n", "utf-8")
    done = call_commands(core, environ, ["ingest", str(note)], ["recall", "zirconium whisk", "--k", "1"])
    assert "third drawer" in done.stdout


def recall_over_rest(core: Path, environ: dict[str, str], question: str, **options: Any) -> list[str]:
    port = pick_port()
    server = subprocess.Popen([core / "helix", "serve", "--port", str(port)], env=environ, stderr=subprocess.DEVNULL)
    try:
        wait_until(60, lambda: server.poll() is not None or get_status(f"http://127.0.0.1:{port}/readyz") == 200)
        with helix.connect(f"http://127.0.0.1:{port}") as remote:
            return [item.id for item in remote.recall(question, **options).items]
    finally:
        server.terminate()
        server.wait(60)


def recall_over_mcp(core: Path, environ: dict[str, str], **question: Any) -> list[str]:
    server = StdioServerParameters(command=str(core / "helix"), args=["mcp"], env=environ)
    return [item["id"] for item in call_tool(server, "recall", **question)["items"]]


def test_the_extra_workers_has_every_module_and_command(ingesting: Path, environ: dict[str, str], builds: Path) -> None:
    imported = import_all(ingesting, environ, builds, *PACKAGES)
    assert {"pipelines.embedded.ingest", "pipelines.embedded.publisher", "workers.tasks"} <= imported
    commands = find_helix(ingesting).entry_points.select(group="helix.commands")
    assert {entry.module for entry in commands} <= imported
    assert all(callable(entry.load()) for entry in commands)  # loaded from the checkout, of which the wheel is made


def test_the_core_makes_a_new_store(core: Path, environ: dict[str, str], tmp_path: Path) -> None:
    """With an encoder and classifiers of its own: nothing is trained or downloaded."""
    environ |= {"HELIX_STORE": str(tmp_path / "new"), "HELIX_CACHE": str(tmp_path / "cache")}
    done = run(core / "helix", "ingest", helix.__path__[0] + "/sample", env=environ)
    assert "129 new items; generation 1" in done.stdout
    assert "I told Priya" in run(core / "helix", "recall", QUESTION, env=environ).stdout
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["encoders"]


@pytest.mark.soak
def test_a_script_of_a_user_is_checked_against_the_types(core: Path, environ: dict[str, str], tmp_path: Path) -> None:
    """mypy --strict reports an unused `ignore`, so the wrong call must be an error."""
    script = tmp_path / "script.py"
    script.write_text(
        """
import helix
from helix.adapters import Recalls
from helix.types import Bundle, Item
from pipelines.ingest.accept_all import IngestReport
from query.schema.requests import RecallRequest
from workers.dispatch import count_messages


def best(memory: Recalls) -> Item:
    found: Bundle = memory.recall("why sqlite", k=3)
    return found.items[0]


def score(memory: helix.Memory, request: RecallRequest, report: IngestReport) -> float:
    if memory.refresh():
        memory.recall(request.query, k="three")  # type: ignore[arg-type]
    return best(memory).score + request.k + report.items


print(score(helix.open("memory"), RecallRequest(query="why"), IngestReport()), count_messages)
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
