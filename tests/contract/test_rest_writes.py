"""The paths of REST that write: rights, notes, pins, corrections, deletions, and sessions that are kept out."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from helix.sdk.notes import MAX_NOTE, cut_note
from helix.settings import Settings
from helix.snapshot.ledger import inbox
from helix.snapshot.segment.batch import hash_parts
from helix.switches.state import make_target, switch_off
from query import auth, publisher, writes
from query.middleware import MAX_BODY, find_scope
from query.serve import make_policy
from tests.support.processes import wait_until
from tests.support.serving import ServerProcess, serving
from tests.support.walk import decode, read_all

SECRET = "sk-ant-api03-" + "Zq8Rw2Lx" * 11 + "-AAAA"
LONG = "The walnut rule has many parts. " * 200
TURNS = (
    {"session": "kitchen", "id": "k1", "text": "The walnut loaf needs an hour.", "project": "bread"},
    {"session": "kitchen", "id": "k2", "text": "Ana's secret is cardamom.", "project": "bread", "acl": ["ana"]},
    {"session": "kitchen", "id": "k3", "text": "Bob's secret is quombledorf.", "project": "bread", "acl": ["bob"]},
    {"session": "office", "id": "o1", "text": "The merger closes in March.", "project": "deal"},
    {"session": "vault", "id": "v1", "text": "Bob alone knows the price.", "project": "bread", "acl": ["bob"]},
    {"session": "diary", "id": "d1", "text": "The zephyrine harpsichord is in the attic.", "project": "bread"},
    {"session": "diary", "id": "d2", "text": "It needs new strings.", "project": "bread"},
    {"session": "keep-out", "id": "x1", "text": "A session with the name of a path.", "project": "bread"},
    {"session": "rules", "id": "r1", "text": "Proof the dough overnight.", "project": "bread"},
    {"session": "rules", "id": "r2", "text": LONG, "project": "bread"},
)  # fmt: skip


def item(turn: str, session: str) -> str:
    return hash_parts("jsonl", session, turn, "0")


UNKNOWN = "f" * 16
OWN, ANAS, BOBS, OTHER = item("k1", "kitchen"), item("k2", "kitchen"), item("k3", "kitchen"), item("o1", "office")

POSTS: dict[str, dict[str, Any]] = {
    "/v1/notes": {"text": "a note", "project": "bread"},
    f"/v1/items/{OWN}/pin": {},
    f"/v1/items/{OWN}/correct": {"text": "The walnut loaf needs two hours."},
    "/v1/forget": {"items": [OWN]},
    "/v1/sessions/keep-out": {"session": "kitchen", "off": True},
}
NEEDED = dict(zip(POSTS, ("remember", "remember", "remember", "forget", "forget"), strict=True))


def write_turns(path: Path, turns: Any) -> Path:
    day = "2026-03-01T08:00:00Z"
    path.write_text("".join(json.dumps({"speaker": "Ana", "ts": day, **turn}) + "\n" for turn in turns))
    return path


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    from pipelines.embedded.ingest import ingest

    folder = tmp_path_factory.mktemp("writes")
    settings = Settings(cache=str(cache), item_words=1_000)
    ingest(folder / "store", [write_turns(folder / "in.jsonl", TURNS)], settings)
    return folder / "store"


@pytest.fixture(scope="module")
def keys(store: Path) -> dict[str, str]:
    path = store / auth.FILE
    writing = ["recall", "remember", "forget"]
    return {
        "ana": auth.create_key(path, "ana", projects=["bread"], scopes=writing)[0],
        "bob": auth.create_key(path, "bob", scopes=writing)[0],
        "reader": auth.create_key(path, "ana", scopes=["recall", "feedback", "admin"])[0],
        "writer": auth.create_key(path, "ana", scopes=["recall", "remember"])[0],
        "deleter": auth.create_key(path, "ana", scopes=["forget"])[0],
    }


@pytest.fixture(scope="module")
def url(store: Path, keys: dict[str, str]) -> Iterator[str]:
    with ServerProcess(store) as server:
        yield server.wait_for_address().wait_for_status().url


class As:
    """Requests with one key; without one, the owner's."""

    def __init__(self, url: str, key: str = "") -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.client = httpx.Client(base_url=url, headers=headers, timeout=90)

    def post(self, path: str, body: Any, status: int) -> Any:
        """Post a body, check the status, and return the answer; of a refusal its detail."""
        found = self.client.post(path, json=body)
        assert found.status_code == status, found.text
        if status < 400:
            return found.json()
        assert found.headers["content-type"] == "application/problem+json"
        return found.json()["detail"]

    def get(self, path: str, **params: Any) -> httpx.Response:
        return self.client.get(path, params=params or None)

    def wait_for(self, identity: str) -> dict[str, Any]:
        """Wait until an item is published and served."""
        wait_until(90, lambda: self.get(f"/v1/items/{identity}").status_code == 200)
        return dict(self.get(f"/v1/items/{identity}").json())


@pytest.fixture(scope="module")
def callers(url: str, keys: dict[str, str]) -> dict[str, As]:
    return {"owner": As(url), **{name: As(url, key) for name, key in keys.items()}}


def list_files(root: Path) -> dict[str, int]:
    """Return the time of the last write of each file of a store, its logs apart."""
    files = [path for path in root.rglob("*") if path.is_file() and "logs" not in path.parts]
    return {str(path): path.stat().st_mtime_ns for path in files}


def find_text(root: Path, text: str) -> list[str]:
    """Return the files of a store with a text, its encoder apart."""
    found = read_all(root)
    return [str(path) for path, data in found if "encoders" not in path.parts and text.encode() in decode(path, data)]


# ---------------------------------------------------------------- who may


def test_rights_are_those_of_the_caller(callers: dict[str, As]) -> None:
    scopes = ["recall", "feedback", "remember", "forget", "admin"]
    owner = {"key": False, "principal": None, "projects": None, "scopes": scopes}
    assert callers["owner"].get("/v1/rights").json() == owner
    ana = {"key": True, "principal": "ana", "projects": ["bread"], "scopes": ["recall", "remember", "forget"]}
    assert callers["ana"].get("/v1/rights").json() == ana
    assert callers["deleter"].get("/v1/rights").json()["scopes"] == ["forget"]  # no scope is needed
    assert As(str(callers["ana"].client.base_url), "hx_wrong").get("/v1/rights").status_code == 401


def test_a_key_without_the_scope_learns_nothing(callers: dict[str, As], store: Path) -> None:
    before = list_files(store)
    for path, body in POSTS.items():
        without = callers["reader"], callers["deleter" if NEEDED[path] == "remember" else "writer"]
        for caller in without:
            refused = caller.post(path, body, 403)
            assert f"lacks the scope {NEEDED[path]}" in refused
            assert caller.post(path.replace(OWN, UNKNOWN), {**body, "principal": None}, 403) == refused
    assert callers["writer"].get("/v1/kept-out").status_code == 403
    assert list_files(store) == before


def test_the_writes_check_the_scope_themselves(store: Path) -> None:
    reader = auth.Caller("k", "ana", None, frozenset({"recall"}))
    service = object()
    for call in (
        lambda: writes.remember(service, reader, "a note"),  # type: ignore[arg-type]
        lambda: writes.correct(service, reader, OWN, "a note"),  # type: ignore[arg-type]
        lambda: writes.pin(service, reader, OWN),  # type: ignore[arg-type]
        lambda: writes.plan_removal(service, reader, [OWN]),  # type: ignore[arg-type]
    ):
        with pytest.raises(auth.AccessDenied, match="lacks the scope"):
            call()


def test_the_scope_of_a_path_is_that_of_its_method() -> None:
    for path, scope in NEEDED.items():
        assert find_scope("POST", path) == scope
        assert find_scope("GET", path) == "recall"  # a session or an item may have such a name
    assert find_scope("POST", "/v1/items/a/b/pin") == "recall"


def test_a_session_with_the_name_of_a_path_is_still_read(callers: dict[str, As]) -> None:
    assert callers["ana"].get("/v1/sessions/keep-out").json()["items"][0]["id"] == item("x1", "keep-out")
    assert callers["deleter"].get("/v1/sessions/keep-out").status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"},
        {"Host": "evil.example"},
    ],
    ids=str,
)
def test_another_sites_page_writes_nothing(url: str, store: Path, headers: dict[str, str]) -> None:
    before = list_files(store)
    for path, body in POSTS.items():
        for content in ("application/json", "text/plain"):
            sent = {**headers, "content-type": content}
            assert httpx.post(f"{url}{path}", content=json.dumps(body), headers=sent).status_code == 403
        assert httpx.options(f"{url}{path}", headers=headers).status_code == 403
    for path in ("/v1/rights", "/v1/kept-out"):
        assert httpx.get(f"{url}{path}", headers=headers).status_code == 403
    assert list_files(store) == before


def test_a_form_of_a_page_is_no_request(url: str, store: Path) -> None:
    """Check what a page can send without a preflight, even where a browser names no origin."""
    before = list_files(store)
    for path, body in POSTS.items():
        for content in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", None):
            headers = {"content-type": content} if content else {}
            found = httpx.post(f"{url}{path}", content=json.dumps(body).encode(), headers=headers)
            assert found.status_code == 400, (path, content, found.text)
    assert list_files(store) == before


def test_no_get_changes_anything(callers: dict[str, As], store: Path) -> None:
    before, owner = list_files(store), callers["owner"]
    for path, body in POSTS.items():
        for method in ("GET", "HEAD", "PUT", "DELETE", "PATCH"):
            params = {name: str(value) for name, value in body.items()}
            found = owner.client.request(method, path, params=params, json=body)
            assert found.status_code in (400, 404, 405), (method, path, found.text)
    assert [owner.get(path).status_code for path in ("/v1/rights", "/v1/kept-out")] == [200, 200]
    assert list_files(store) == before


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/v1/notes", {"text": "  \n"}, "the note is empty"),
        ("/v1/notes", {"text": "x" * (MAX_NOTE + 1)}, "more than 4,000"),
        ("/v1/notes", {"text": "x", "by": "root"}, "none of user, agent"),
        ("/v1/notes", {"text": "x", "scope": "team"}, "none of project, user"),
        ("/v1/notes", {"text": "x", "type": "idea"}, "none of"),
        ("/v1/notes", {"text": "x", "project": " "}, "the project has 1 characters"),
        ("/v1/notes", {"text": "x", "project": "p" * 301}, "the project has 301 characters"),
        ("/v1/notes", {"text": "x", "private": True}, "needs a principal"),
        ("/v1/notes", {"text": "x", "acl": ["ana"]}, "acl"),
        ("/v1/notes", {"text": ["x"]}, "text"),
        ("/v1/notes", {}, "text"),
        ("/v1/notes", [], "dictionary"),
        (f"/v1/items/{OWN}/pin", {"by": "root"}, "none of user, agent"),
        (f"/v1/items/{OWN}/pin", {"text": "x"}, "text"),
        (f"/v1/items/{OWN}/correct", {"text": ""}, "the note is empty"),
        (f"/v1/items/{OWN}/correct", {"text": "x" * 5_000}, "more than 4,000"),
        ("/v1/forget", {}, "give 1 to 50"),
        ("/v1/forget", {"items": [OWN] * 51}, "51 items"),
        ("/v1/forget", {"items": [OWN], "session": "kitchen"}, "items and a session"),
        ("/v1/forget", {"items": [OWN, UNKNOWN]}, f"no live item is '{UNKNOWN}'"),
        ("/v1/forget", {"items": ["x" * 65]}, "64 characters"),
        ("/v1/forget", {"session": "nowhere"}, "no live session is 'nowhere'"),
        ("/v1/forget", {"session": ""}, "no live session is ''"),
        ("/v1/forget", {"items": [OWN], "confirm": "yes"}, "does not confirm"),
        ("/v1/forget", {"items": [OWN], "confirm": "x" * 65}, "confirm"),
        ("/v1/sessions/keep-out", {"session": "s"}, "off"),
        ("/v1/sessions/keep-out", {"session": " ", "off": True}, "the session has 0 characters"),
        ("/v1/sessions/keep-out", {"session": "s" * 301, "off": True}, "the session has 301 characters"),
    ],
)  # fmt: skip
def test_a_wrong_request_is_refused(callers: dict[str, As], store: Path, path: str, body: Any, message: str) -> None:
    before = list_files(store)
    assert message in callers["owner"].post(path, body, 400)
    assert list_files(store) == before


def test_broken_and_oversized_bodies_are_refused(callers: dict[str, As], store: Path) -> None:
    before = list_files(store)
    for path, body in POSTS.items():
        large = json.dumps({**body, "text": "x" * MAX_BODY}).encode()
        broken = b'{"text": "\\ud800", "session": "\\ud800", "off": true, "items": ["\\ud800"]}'
        for content, status in ((large, 413), (broken, 400), (b"{", 400), (b"", 400), (b"\xff\xfe", 400)):
            headers = {"content-type": "application/json"}
            found = callers["owner"].client.post(path, content=content, headers=headers)
            assert found.status_code == status, (path, content[:40], found.text)
    assert list_files(store) == before


def test_a_hidden_item_is_like_an_unknown_one(callers: dict[str, As], store: Path) -> None:
    before, ana = list_files(store), callers["ana"]
    for hidden in (BOBS, OTHER):
        for path, body in (("pin", {}), ("correct", {"text": "Ana knows it."})):
            texts = {ana.post(f"/v1/items/{one}/{path}", body, 404) for one in (hidden, UNKNOWN)}
            assert len(texts) == 1
        texts = {ana.post("/v1/forget", {"items": [OWN, one]}, 400).replace(one, "") for one in (hidden, UNKNOWN)}
        assert len(texts) == 1
    for hidden in ("office", "vault"):
        for path, body in (("/v1/forget", {}), ("/v1/sessions/keep-out", {"off": True})):
            texts = {ana.post(path, {"session": one, **body}, 400).replace(one, "") for one in (hidden, "nowhere")}
            assert len(texts) == 1
    owner = callers["owner"]  # of no principal
    assert owner.post(f"/v1/items/{ANAS}/pin", {}, 404)
    assert "not of the principal" in ana.post("/v1/forget", {"items": [BOBS], "principal": "bob"}, 403)
    assert owner.post("/v1/forget", {"items": [BOBS], "principal": "bob"}, 200)["total"] == 1
    assert list_files(store) == before


def test_a_part_of_a_session_is_hidden_in_no_text_and_no_count(callers: dict[str, As], store: Path) -> None:
    before = list_files(store)
    for name in ("ana", "bob", "owner"):
        found = callers[name].post("/v1/forget", {"session": "kitchen"}, 403)
        assert "you do not see all of this session" in found
        assert not any(character.isdigit() for character in found)
    assert "you do not see all" in callers["ana"].post(
        "/v1/sessions/keep-out", {"session": "kitchen", "off": True}, 403
    )
    planned = callers["ana"].post("/v1/forget", {"items": ["kitchen#k1", "kitchen#k2"]}, 200)
    assert (planned["total"], {one["id"] for one in planned["items"]}) == (2, {OWN, ANAS})
    assert list_files(store) == before


def test_a_key_writes_in_its_projects_only(callers: dict[str, As], store: Path) -> None:
    before = list_files(store)
    for body in ({"project": "deal"}, {}, {"project": "bread", "scope": "user"}, {"project": "everywhere"}):
        assert "own projects only" in callers["ana"].post("/v1/notes", {"text": "a note", **body}, 403)
    assert list_files(store) == before


# ---------------------------------------------------------------- notes


def test_notes_pins_and_corrections_are_published_for_their_readers(callers: dict[str, As], store: Path) -> None:
    ana, bob = callers["ana"], callers["bob"]
    note = {"text": f"Never bake at night: {SECRET}", "project": "bread", "pinned": True, "by": "user"}
    rule = ana.post("/v1/notes", note, 202)
    assert (rule["project"], rule["corrects"], sum(rule["redacted"].values())) == ("bread", None, 1)
    private = ana.post("/v1/notes", {"text": "Ana weighs in grams.", "project": "bread", "private": True}, 202)
    pin = ana.post(f"/v1/items/{ANAS}/pin", {"by": "user"}, 202)
    change = ana.post(f"/v1/items/{ANAS}/correct", {"text": "Ana's secret is saffron."}, 202)
    assert (change["corrects"], change["project"], pin["corrects"]) == (ANAS, "bread", None)
    stored = {name: ana.wait_for(one["id"]) for name, one in
              (("rule", rule), ("private", private), ("pin", pin), ("change", change))}  # fmt: skip
    assert {one["project"] for one in stored.values()} == {"bread"}
    assert {one["speaker"] for one in stored.values()} == {"ana"}
    assert [stored[name]["role"] for name in ("rule", "private", "pin", "change")] == [
        *("user", "assistant", "user", "assistant")
    ]
    assert stored["pin"]["text"] == "Ana's secret is cardamom."
    assert find_text(store, SECRET) == []
    assert bob.get(f"/v1/items/{rule['id']}").status_code == 200
    for hidden in (private, pin, change):
        assert bob.get(f"/v1/items/{hidden['id']}").status_code == 404
    rules, _, rest = ana.get("/v1/context", project="bread").text.partition("Notes of agents")
    assert "Never bake at night" in rules
    assert "Ana's secret is cardamom." in rules
    assert "saffron" in rest
    for word in ("cardamom", "saffron", "grams"):
        assert word not in bob.get("/v1/context", project="bread").text
    assert ana.get(f"/v1/items/{ANAS}").json()["replaced_by"]["id"] == change["id"]
    for pinned in (rule["id"], pin["id"], ANAS):
        assert "pinned already" in ana.post(f"/v1/items/{pinned}/pin", {"by": "user"}, 400)


def test_a_long_item_is_cut_for_its_pin(callers: dict[str, As]) -> None:
    bob, long = callers["bob"], item("r2", "rules")
    assert len(bob.get(f"/v1/items/{long}").json()["text"]) > MAX_NOTE
    pin = bob.wait_for(bob.post(f"/v1/items/{long}/pin", {}, 202)["id"])
    assert (pin["session"], pin["text"].startswith("The walnut rule")) == ("pinned notes", True)


def test_a_text_is_cut_after_a_sentence() -> None:
    sentence = "A rule. "
    assert cut_note(f"  {sentence}") == "A rule."
    cut = cut_note(sentence * 1_000)
    assert MAX_NOTE - 2 * len(sentence) < len(cut) <= MAX_NOTE
    assert cut.endswith("A rule.")
    assert cut_note("x" * 5_000) == "x" * MAX_NOTE
    assert cut_note(f"Short. {'x' * 5_000}") == f"Short. {'x' * 5_000}"[:MAX_NOTE]


def test_a_kill_between_accept_and_publish_loses_nothing(
    own_store: Path, monkeypatch: pytest.MonkeyPatch, run_helix: Any
) -> None:
    monkeypatch.setattr(publisher.NotePublisher, "start", lambda _: None)  # the server is killed before
    with serving(own_store, Settings()) as client:
        found = client.post("/v1/notes", json={"text": "The ferry leaves at nine.", "project": "holidays"})
        assert found.status_code == 202
    assert len(inbox.list_pending(own_store)) == 1
    assert run_helix("ingest", "--pending", "--store", own_store).returncode == 0
    with serving(own_store, Settings()) as client:
        assert client.get(f"/v1/items/{found.json()['id']}").json()["text"] == "The ferry leaves at nine."


# ---------------------------------------------------------------- deletions


def test_items_are_forgotten_after_their_word(callers: dict[str, As], store: Path) -> None:
    owner, first = callers["owner"], item("r1", "rules")
    planned = owner.post("/v1/forget", {"items": [first, "rules#r1"]}, 200)
    assert planned["forgotten"] is False
    assert planned["total"] == 1
    (shown,) = planned["items"]
    day = "2026-03-01T08:00:00Z"
    assert shown == {"id": first, "text": "Proof the dough overnight.", "session": "rules", "time": day}
    assert "does not confirm" in owner.post("/v1/forget", {"items": [OWN], "confirm": planned["confirm"]}, 400)
    done = owner.post("/v1/forget", {"items": [first], "confirm": planned["confirm"]}, 200)
    assert done["forgotten"] is True
    assert done["receipt"]["items"] == [first]
    assert done["receipt"]["files"]
    assert find_text(store, "dough overnight") == []
    wait_until(60, lambda: owner.get(f"/v1/items/{first}").status_code == 404)
    assert owner.get(f"/v1/items/{OWN}").status_code == 200
    assert "no live item" in owner.post("/v1/forget", {"items": [first], "confirm": planned["confirm"]}, 400)


def test_a_session_that_grew_is_previewed_again(
    callers: dict[str, As], store: Path, tmp_path: Path, run_helix: Any
) -> None:
    ana = callers["ana"]
    planned = ana.post("/v1/forget", {"session": "diary"}, 200)
    assert (planned["total"], {one["session"] for one in planned["items"]}) == (2, {"diary"})
    grown = [turn for turn in TURNS if turn["session"] == "diary"]
    grown += [{"session": "diary", "id": f"e{n}", "text": f"An ottavinoid coda, part {n}.", "project": "bread",
               "ts": f"2026-04-01T08:{n:02}:00Z"} for n in range(60)]  # fmt: skip
    assert run_helix("ingest", write_turns(tmp_path / "more.jsonl", grown), "--store", store).returncode == 0
    ana.wait_for(item("e59", "diary"))
    assert "does not confirm" in ana.post("/v1/forget", {"session": "diary", "confirm": planned["confirm"]}, 400)
    assert ana.get("/v1/sessions/diary").json()["total"] == 62
    again = ana.post("/v1/forget", {"session": "diary"}, 200)
    assert (again["total"], len(again["items"])) == (62, 50)
    assert again["items"][0]["text"] == "An ottavinoid coda, part 59."
    done = ana.post("/v1/forget", {"session": "diary", "confirm": again["confirm"]}, 200)
    assert len(done["receipt"]["items"]) == 62
    assert find_text(store, "harpsichord") == find_text(store, "ottavinoid") == []
    wait_until(60, lambda: ana.get("/v1/sessions/diary").status_code == 404)


def test_only_what_was_shown_is_forgotten(own_store: Path, tmp_path: Path, run_helix: Any) -> None:
    """Check that what is published while a deletion begins stays, even of the same session."""
    turns = [{"session": "s", "id": f"t{n}", "text": f"The merger, part {n}."} for n in range(2)]
    assert run_helix("ingest", write_turns(tmp_path / "a.jsonl", turns[:1]), "--store", own_store).returncode == 0
    with serving(own_store, Settings(reload_interval=600)) as client:  # it does not see the new turn
        planned = client.post("/v1/forget", json={"session": "s"}).json()
        assert run_helix("ingest", write_turns(tmp_path / "b.jsonl", turns), "--store", own_store).returncode == 0
        done = client.post("/v1/forget", json={"session": "s", "confirm": planned["confirm"]})
        assert done.json()["receipt"]["items"] == [item("t0", "s")]
        # The files of the served generation are gone, so the next one answers at once.
        assert [client.get(f"/v1/items/{item(turn, 's')}").status_code for turn in ("t0", "t1")] == [404, 200]
    shown = run_helix("show", item("t1", "s"), "--store", own_store, "--json")
    assert "The merger, part 1." in shown.stdout


def test_a_receipt_is_answered_however_long_it_takes(own_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forget_slowly(*_: Any) -> dict[str, Any]:
        time.sleep(1)
        return {"items": []}

    monkeypatch.setattr(writes, "forget", forget_slowly)
    policy = replace(make_policy("127.0.0.1", Settings()), token="", seconds=0.2)
    with serving(own_store, Settings(), policy) as client:
        found = client.get("/v1/timeline").json()["sessions"][0]["session"]
        done = client.post("/v1/forget", json={"session": found, "confirm": "x"})
        assert (done.status_code, done.json()) == (200, {"forgotten": True, "receipt": {"items": []}})


# ---------------------------------------------------------------- kept out


def test_a_session_that_is_kept_out_stays_out(
    callers: dict[str, As], store: Path, tmp_path: Path, run_helix: Any
) -> None:
    owner, later = callers["owner"], {"session": "gossip", "ts": "2999-01-01T10:00:00Z"}
    found = owner.post("/v1/sessions/keep-out", {"session": "gossip", "off": True}, 200)
    assert (found["session"], found["off"], found["changed"]) == ("gossip", True, True)
    assert found["message"].startswith("Helix is off for session gossip: hooks add nothing")
    again = owner.post("/v1/sessions/keep-out", {"session": " gossip ", "off": True}, 200)
    assert (again["changed"], again["message"].startswith("Already so")) == (False, True)
    (entry,) = owner.get("/v1/kept-out").json()["off"]
    assert entry.keys() == {"session", "since"}
    log = write_turns(tmp_path / "gossip.jsonl", [{**later, "id": "g1", "text": "The blorptronic is for sale."}])
    run_helix("ingest", log, "--store", store)
    assert find_text(store, "blorptronic") == []
    ended = owner.post("/v1/sessions/keep-out", {"session": "gossip", "off": False}, 200)
    assert (ended["off"], ended["changed"]) == (False, True)
    assert "on again for session gossip" in ended["message"]
    idle = owner.post("/v1/sessions/keep-out", {"session": "gossip", "off": False}, 200)
    assert (idle["changed"], idle["message"]) == (False, "Helix was not off for session gossip.")
    assert owner.get("/v1/kept-out").json() == {"off": []}


def test_a_key_keeps_out_what_it_sees_and_learns_of_no_other(callers: dict[str, As], store: Path) -> None:
    ana, bob, owner = callers["ana"], callers["bob"], callers["owner"]
    assert ana.post("/v1/sessions/keep-out", {"session": "rules", "off": True}, 200)["changed"]
    for target in (make_target(session="office"), make_target(session="unheard"), make_target(project="deal")):
        switch_off(store, target)

    def list_off(caller: As) -> set[str]:
        return {one.get("session") or one["project"] for one in caller.get("/v1/kept-out").json()["off"]}

    assert list_off(ana) == {"rules"}
    assert list_off(bob) == {"rules", "office", "deal"}
    assert list_off(owner) == {"rules", "office", "unheard", "deal"}
    assert "no live session" in ana.post("/v1/sessions/keep-out", {"session": "office", "off": False}, 400)
    assert ana.post("/v1/sessions/keep-out", {"session": "rules", "off": False}, 200)["changed"]
    for session in ("office", "unheard"):
        assert owner.post("/v1/sessions/keep-out", {"session": session, "off": False}, 200)["changed"]
