import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from helix.sources import slack
from helix.sources.common.sample import take_sample
from helix.types import Document
from tests.support.paths import DATA
from tests.support.turns import cases
from tests.unit.sources.test_slack import T0, parse, say

EXPORT = DATA / "logs" / "slack"


def collect(path):
    (found,) = slack.collect(path)
    return found


@pytest.fixture
def export(tmp_path):
    shutil.copytree(EXPORT, tmp_path / "export")
    return tmp_path / "export"


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def test_a_day_is_one_text_with_its_users(export):
    path = export / "deploys" / "2026-05-05.json"
    os.utime(path, (T0, T0))
    found = collect(path)
    assert (found.name, found.mtime) == ("", datetime(2026, 5, 4, 10, tzinfo=UTC))
    value = json.loads(found.text)
    assert sorted(value) == ["channel", "messages", "slack", "users"]
    assert (value["slack"], value["channel"]) == (1, "deploys")
    assert value["users"] == {"U0BRAM002": "Bram Visser", "U0NOOR001": "Noor"}
    assert slack.detect(take_sample(found.text, "x"))
    value = json.loads(collect(export / "deploys" / "2026-05-04.json").text)
    assert value["users"] == {"U0NOOR001": "Noor", "U0BRAM002": "Bram Visser", "U0ILSE003": "Ilse K."}


def test_a_collected_day_parses_like_its_file(export):
    path = export / "deploys" / "2026-05-04.json"
    users = {user["id"]: user for user in json.loads((export / "users.json").read_text())}
    raw = json.loads(path.read_text())
    for message in raw:
        if message.get("user"):
            message["user_profile"] = users[message["user"]]["profile"]
    bare, whole = parse(raw, str(path)).sessions, slack.parse(Document("x", collect(path).text)).sessions
    assert bare == whole


def test_fields_that_change_with_each_export_are_left_out(export):
    path = export / "deploys" / "2026-05-04.json"
    before = collect(path).text
    messages = json.loads(path.read_text())
    for message in messages:
        message["reactions"] = [{"name": "eyes", "users": ["U0GONE005"]}]
        message["user_profile"] = {"avatar_hash": "new", "display_name": "renamed in the message"}
        for file in message.get("files", ()):
            file["url_private"] = "https://files.example/other"
        if message.get("reply_count"):
            message["reply_count"] += 1
    path.write_text(json.dumps([dict(reversed(message.items())) for message in messages]))
    assert collect(path).text == before


def test_names_are_read_again_when_they_change(export):
    path = export / "deploys" / "2026-05-05.json"
    assert "Bram Visser" in collect(path).text
    users = json.loads((export / "users.json").read_text())
    users[1]["profile"]["display_name"] = "Bram"
    write(export / "users.json", users)
    assert json.loads(collect(path).text)["users"]["U0BRAM002"] == "Bram"


def test_names_are_read_once_for_all_days(export, monkeypatch):
    read = []
    whole = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path.name) or whole(path))
    for n in (4, 5, 4):
        slack.collect(export / "deploys" / f"2026-05-0{n}.json")
    assert read.count("users.json") == 1


@cases("users", None, "not json", 7, {}, [7, {"id": 7}, {"id": "U0BRAM002"}, {"id": "U0BRAM002", "profile": 7}])
def test_without_names_ids_stay(export, users):
    (export / "users.json").unlink()
    if users is not None:
        write(export / "users.json", users)
    value = json.loads(collect(export / "deploys" / "2026-05-05.json").text)
    assert value["users"] == {}
    assert len(value["messages"]) == 2


@cases("user, name",
    ({"profile": {"display_name": "d", "real_name": "r"}, "real_name": "rr", "name": "n"}, "d"),
    ({"profile": {"display_name": "", "real_name": "r"}, "real_name": "rr", "name": "n"}, "r"),
    ({"profile": {}, "real_name": "rr", "name": "n"}, "rr"), ({"name": "n"}, "n"))  # fmt: skip
def test_which_name_is_shown(tmp_path, user, name):
    write(tmp_path / "users.json", [{"id": "U0ABC", **user}])
    path = write(tmp_path / "general" / "2026-05-04.json", [say(0, "x", user="U0ABC")])
    assert json.loads(collect(path).text)["users"] == {"U0ABC": name}


def test_names_come_from_messages_or_the_organisation(tmp_path):
    path = write(
        tmp_path / "general" / "2026-05-04.json", [say(0, "x", user="U0ABC", user_profile={"real_name": "Noor H."})]
    )
    assert json.loads(collect(path).text)["users"] == {"U0ABC": "Noor H."}
    write(tmp_path / "org_users.json", [{"id": "U0ABC", "name": "noor"}])
    path = write(tmp_path / "general" / "2026-05-04.json", [say(0, "x", user="U0ABC")])
    assert json.loads(collect(path).text)["users"] == {"U0ABC": "noor"}


DEEP = "[" * 300 + "]" * 300


@cases("text",
    "", "[]", "# notes", '{"ts": "1.0", "type": "message"}', '[{"ts": "1.0", "type": "message"',
    '[{"ts": 1.0, "type": "message"}]', '[{"ts": "1.0"}]', f'[{{"ts": "1.0", "type": "message", "blocks": {DEEP}}}]',
    json.dumps([{"id": "x", "mapping": {}}]))  # fmt: skip
def test_other_files_are_not_collected(tmp_path, text):
    path = tmp_path / "general" / "2026-05-04.json"
    path.parent.mkdir()
    path.write_text(text)
    assert slack.collect(path) is None


def test_other_bytes_and_missing_files_are_not_collected(tmp_path):
    path = tmp_path / "2026-05-04.json"
    assert slack.collect(path) is None
    path.write_bytes(b'[{"ts": "1.0", "type": "message", "text": "\xff"}]')
    assert slack.collect(path) is None
    path.write_bytes(b'\xef\xbb\xbf[{"ts": "1.0", "type": "message", "text": "x"}]')
    assert slack.collect(path) is not None
    assert slack.collect(tmp_path) is None


def test_lists_and_empty_days_are_companions_in_an_export(export):
    write(export / "dms.json", [])
    write(export / "canvases.json", [{"id": "F01", "title": "Plan"}])
    write(export / "notes.json", [{"id": "x"}])
    write(export / "deploys" / "canvas.json", [])
    found = {path.relative_to(export).as_posix(): slack.is_companion(path) for path in export.rglob("*.json")}
    assert found == {
        "users.json": True, "channels.json": True, "integration_logs.json": True, "dms.json": True,
        "canvases.json": True, "notes.json": False, "deploys/2026-05-04.json": False, "deploys/2026-05-05.json": False,
        "deploys/2026-05-06.json": True, "deploys/canvas.json": False}  # fmt: skip


@cases("text", '{"id": 1}', "# id", '[{"name": "x"}]', "")
def test_other_content_under_such_a_name_belongs_to_nothing(export, text):
    (export / "users.json").write_text(text)
    assert not slack.is_companion(export / "users.json")


def test_the_same_names_elsewhere_or_unreadable_are_no_companions(tmp_path):
    assert not slack.is_companion(tmp_path / "users.json")
    assert not slack.is_companion(tmp_path / "2026-05-04.json")
    users = write(tmp_path / "users.json", [{"id": "U1", "name": "x"}])
    day = write(tmp_path / "general" / "2026-05-04.md", [])
    assert not slack.is_companion(users)
    assert not slack.is_companion(write(tmp_path / "other" / "deep" / "2026-05-04.json", []))
    day.with_suffix(".json").write_text("[]")
    assert slack.is_companion(users)
