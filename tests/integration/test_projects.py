"""Projects of a store: one for each repository, whatever folder a session began in, and its old names still find it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from helix.encoders.dense import Encoder
from helix.errors import UsageError
from helix.sdk.open import open as open_store
from helix.settings import Settings, load
from helix.snapshot.ledger.inbox import Envelope
from helix.snapshot.paths import create_folders
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.sql import run_statement
from helix.snapshot.status import count_by_field, list_old_projects
from helix.types import Session
from helix.util.workspaces import Workspace
from pipelines.ingest import part
from pipelines.ingest.lineage import open_encoder
from pipelines.ingest.workspaces import SessionProject
from pipelines.maintain.compact import compact
from pipelines.maintain.deletion_plan import Selection
from pipelines.maintain.forget import forget
from pipelines.maintain.reindex import reindex
from query.hooks.context import answer_hook
from query.hooks.protocol import build_request
from tests.conftest import copy_store
from tests.support.publishing import make_serially, publish_log
from tests.support.repositories import add_worktree, make_repository, write_claude_log
from tests.support.serving import HELIX

API = (
    "The ledger runs on Postgres.",
    "The retry queue runs on Redis.",
    "Invoices are rounded half even.",
)
TWIN = "The ledger runs on SQLite."
QUESTION = "which database does the ledger run on?"


class World:
    """A home folder with two repositories `api`, one of them with a worktree, and the logs of four sessions."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.api = make_repository(home / "code" / "api")
        self.fix = add_worktree(self.api, home / "elsewhere" / "fix")
        self.twin = make_repository(home / "other" / "api")
        folders = (self.api, self.api / "src", self.fix)
        self.logs = [
            *(write_claude_log(home, folder, f"s{i}", API[i], branch="main") for i, folder in enumerate(folders)),
            write_claude_log(home, self.twin, "twin", TWIN, branch="main"),
        ]


@pytest.fixture(scope="module")
def settings(cache: Path) -> Settings:
    return load()


@pytest.fixture(scope="module")
def encoder(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    root = tmp_path_factory.mktemp("encoder")
    create_folders(root)
    return open_encoder(root, settings)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("world") / "home"
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("CLAUDE", "GEMINI"))]:
            patch.delenv(name)  # an agent may run these tests
        patch.setenv("HOME", str(home))
        yield World(home)


@pytest.fixture(scope="module")
def store(world: World, settings: Settings, encoder: Encoder) -> Path:
    """A store of all logs, to read only; `own_copy` is one to change."""
    for log in world.logs:
        publish_log(world.home / "store", log, encoder, settings)
    return world.home / "store"


@pytest.fixture
def own_copy(store: Path, tmp_path: Path) -> Path:
    return copy_store(store, tmp_path / "store")


def texts_of(root: Path, project: str) -> list[str]:
    found = open_store(root).recall(QUESTION, k=10, project=project)
    assert {item.project for item in found.items} <= {"code/api", "other/api", "api"}
    return sorted(item.text for item in found.items)


def select(root: Path, statement: str) -> list[dict[str, object]]:
    with run_statement(root, statement) as answer:
        return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def test_names_old_and_new_find_a_project(store: Path, world: World) -> None:
    for name in ("code/api", "fix", "src", str(world.api)):
        assert texts_of(store, name) == sorted(API), name
    for name in ("other/api", str(world.twin)):
        assert texts_of(store, name) == [TWIN], name
    with pytest.raises(UsageError, match="several projects are called 'api'; give one of code/api, other/api"):
        texts_of(store, "api")
    with pytest.raises(UsageError, match="unknown project 'xyz'"):
        texts_of(store, "xyz")
    memory = open_store(store)
    assert memory.timeline(project="fix")["total"] == 3
    before = datetime.fromtimestamp(int(memory.snapshot.columns.accepted.max()) / 1e6, UTC) - timedelta(milliseconds=1)
    found = memory.recall(QUESTION, project="fix", as_of=before).items  # when it was the only one of its name
    assert {item.project for item in found} == {"code/api"}
    assert memory.choices()["old_projects"] == {"fix": ["code/api"], "src": ["code/api"]}


def test_every_view_of_a_store_has_the_same_projects(own_copy: Path, settings: Settings) -> None:
    names = {"code/api": 3, "other/api": 1}
    for _ in range(2):
        assert count_by_field(own_copy)["project"] == names
        assert list_old_projects(own_copy) == {"fix": ["code/api"], "src": ["code/api"]}
        rows = select(own_copy, "SELECT project, count(*) AS n FROM items GROUP BY 1 ORDER BY 1")
        assert {row["project"]: row["n"] for row in rows} == names
        snap = Snapshot.open(own_copy)
        assert sorted(entry["project"] for entry in snap.text(snap.alive.nonzero()[0])) == ["code/api"] * 3 + [
            "other/api"
        ]
        compact(own_copy, settings, full=True)


def test_a_fact_ends_none_of_another_project_of_its_name(store: Path) -> None:
    facts = select(
        store,
        "SELECT project, object, t_invalid FROM facts WHERE object LIKE '%SQL%' OR object LIKE 'Post%' ORDER BY 1",
    )
    assert [(row["project"], row["object"], row["t_invalid"]) for row in facts] == [
        ("code/api", "Postgres", None),
        ("other/api", "SQLite", None),
    ]
    assert not Snapshot.open(store).facts.find_superseded(2**33).size


def test_a_key_sees_the_items_that_had_its_names(store: Path) -> None:
    memory = open_store(store)
    seen = {
        name: {item.text for item in memory.recall(QUESTION, projects=[name]).items}
        for name in ("fix", "code/api", "other/api", "api")
    }
    assert seen == {"fix": {API[2]}, "code/api": set(API), "other/api": {TWIN}, "api": set()}
    (alone,) = memory.choices(projects=["other/api"])["projects"]
    assert alone == "api"  # nothing tells of the other one
    assert memory.recall(QUESTION, project="other/api", projects=["other/api"]).items


def test_a_deletion_takes_one_project_of_a_name(own_copy: Path, settings: Settings) -> None:
    for name, says in (("api", "the store holds no project api"), ("fix", "it is an old name of code/api")):
        with pytest.raises(UsageError, match=says):
            forget(own_copy, Selection(project=name), settings)
    assert len(forget(own_copy, Selection(project="other/api"), settings)["items"]) == 1
    assert count_by_field(own_copy)["project"] == {"api": 3}
    for key in ("api", "code/api"):  # also the name from when there were two
        assert {item.text for item in open_store(own_copy).recall(QUESTION, projects=[key]).items} == set(API), key
    assert texts_of(own_copy, "api") == sorted(API)


def test_a_repository_without_memory_is_in_no_project_of_its_name(
    own_copy: Path, world: World, settings: Settings, encoder: Encoder, tmp_path: Path
) -> None:
    forget(own_copy, Selection(project="other/api"), settings)
    notes = tmp_path / "notes.jsonl"
    notes.write_text(json.dumps({"text": "Named by its caller.", "project": "api"}) + "\n")
    publish_log(own_copy, notes, encoder, settings)
    catalog = Snapshot.open(own_copy).catalog
    assert catalog.live_projects == ["api"]
    assert catalog.locate_project([Workspace(str(world.twin), str(world.twin))]) is None
    assert catalog.locate_project([Workspace(str(world.api / "new"), str(world.api))]) == "api"
    elsewhere = [Workspace("/w/elsewhere"), Workspace("/home/ben/x", "/home/ben/api")]
    assert catalog.locate_project(elsewhere) == "api"  # of another home: it may be the same


def ask_hook(root: Path, folder: Path) -> str:
    request = build_request("UserPromptSubmit", {"cwd": str(folder), "prompt": QUESTION})
    assert request
    return answer_hook(open_store(root), request)["context"]


def test_a_hook_recalls_the_project_of_its_folder(store: Path, world: World, cache: Path) -> None:
    new = add_worktree(world.api, world.home / "new" / "api")  # no session was in it, and its name is the other one's
    for folder in (world.api, world.api / "src", world.fix, new / "src"):
        (folder / "deep").mkdir(parents=True, exist_ok=True)
        context = ask_hook(store, folder / "deep")
        assert API[0] in context, folder
        assert TWIN not in context, folder
    context = ask_hook(store, world.twin)
    assert TWIN in context
    assert API[0] not in context
    done = subprocess.run(
        [HELIX, "hook", "UserPromptSubmit", "--store", str(store)],
        input=json.dumps({"cwd": str(new), "prompt": QUESTION}).encode(),
        env={**os.environ, "HELIX_CACHE": str(cache)},
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert API[0] in done.stdout.decode()
    assert TWIN not in done.stdout.decode()


@pytest.fixture
def as_before() -> Iterator[pytest.MonkeyPatch]:
    """The names of earlier releases: a project is the last name of its folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(part, "VERSION", 6)
        patch.setattr("pipelines.ingest.source.find_repositories", lambda *_: {})

        def name_folder(session: Session, envelope: Envelope) -> SessionProject:
            return SessionProject(Path(session.workspace.folder).name if session.workspace else None)

        patch.setattr("pipelines.ingest.items.find_project", name_folder)
        yield patch


def test_a_reindex_renames_the_projects_of_an_old_store(
    as_before: pytest.MonkeyPatch, world: World, tmp_path: Path, settings: Settings, encoder: Encoder
) -> None:
    root = tmp_path / "store"
    for log in world.logs:
        publish_log(root, log, encoder, settings)
    assert count_by_field(root)["project"] == {"api": 2, "fix": 1, "src": 1}
    as_before.undo()
    for folder in (world.api, world.fix):  # by the name of the repository
        assert API[0] in ask_hook(root, folder)
    reindex(root, settings, work=make_serially)
    assert count_by_field(root)["project"] == {"code/api": 3, "other/api": 1}
    assert texts_of(root, "src") == texts_of(root, "fix") == sorted(API)
