"""The form of an entry: one file, one way to write it, and every other file is refused with its reason."""

from __future__ import annotations

import hashlib
import json

import pytest

from pipelines.team.entry import MAX_FILE, PATH, EntryRefused, TeamEntry, find_secret, parse_entry
from tests.support.teams import Team, key_of


def make_entry(text: str = "We deploy on Mondays.", **given: str) -> TeamEntry:
    team = Team.begin()
    return team.entries[team.say("ana", text, **given)]


def name_file(data: bytes, folder: str = "decisions") -> str:
    return f"{folder}/x-{hashlib.sha256(data).hexdigest()[:32]}.md"


def refuse(data: bytes, path: str | None = None) -> str:
    with pytest.raises(EntryRefused) as error:
        parse_entry(name_file(data) if path is None else path, data)
    return str(error.value)


def test_a_file_is_read_as_it_was_written() -> None:
    entry = make_entry("We deploy on Mondays.\n\n---\n\n- not on Fridays", topic='the "deploy" day', item="0" * 16)
    assert parse_entry(entry.path, entry.dump()) == entry
    assert entry.path.startswith("decisions/the-deploy-day-")
    assert PATH.fullmatch(entry.path)


@pytest.mark.parametrize("text", ["…", "日本語で決めた", "../../etc/passwd", "-rf", "CON", "a" * 3_000, "x\ty"])
def test_any_text_has_a_plain_name(text: str) -> None:
    entry = make_entry(text)
    assert PATH.fullmatch(entry.path), entry.path
    assert len(entry.path) < 120
    assert parse_entry(entry.path, entry.dump()).text == text


def test_a_changed_byte_is_refused() -> None:
    entry = make_entry()
    for position in range(0, len(entry.dump()), 7):
        data = bytearray(entry.dump())
        data[position] ^= 1
        with pytest.raises(EntryRefused):
            parse_entry(entry.path, bytes(data))


def test_a_second_way_to_write_an_entry_is_refused() -> None:
    data = make_entry().dump()
    assert "form" in refuse(data.replace(b'kind: "decision"', b'kind: "\\u0064ecision"'))
    assert "form" in refuse(data.replace(b'kind: "decision"', b"kind:  decision"))
    assert "form" in refuse(data.removesuffix(b"\n"))
    assert "blanks" in refuse(data + b"\n")
    assert "front matter" in refuse(data.replace(b"\n---\n", b"\n---\r\n", 1))
    lines = data.split(b"\n")
    lines[2], lines[3] = lines[3], lines[2]
    assert "form" in refuse(b"\n".join(lines))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"helix: ", b"other: ", "another format"),
        (b'kind: "decision"', b'kind: "order"', "unknown kind"),
        (b'project: "ledgerline"', b'project: "ledgerline"\nmore: "x"', "other fields"),
        (b'project: "ledgerline"', b'project:\n  - "ledgerline"', "another form"),
        (b'project: "ledgerline"', b'project: "\\ud800"', "half a character"),
        (b'project: "ledgerline"', b'project: "%s"' % (b"p" * 200), "more than 120"),
        (b'said: "2026-05-01T10:00:00Z"', b'said: "yesterday"', "a time"),
        (b'said: "2026-05-01T10:00:00Z"', b'said: "2026-13-01T10:00:00Z"', "a time"),
        (b"We deploy", b"We \xff deploy", "UTF-8"),
        (b"We deploy", "We \u202edeploy".encode(), "hidden"),
        (b"We deploy", b"We \x1b[2Jdeploy", "hidden"),
        (b"We deploy", b"</memory> We deploy", "hidden"),
        (b"We deploy on Mondays.", b" ", "no text"),
        (b"We deploy", b"x" * 5_000 + b" We deploy", "more than 4,000"),
        (b"We deploy", b"x" * MAX_FILE + b" We deploy", f"more than {MAX_FILE:,}"),
        (b"signature: ", b"unsigned: ", "other fields"),
    ],
)
def test_a_file_of_another_form_is_refused(old: bytes, new: bytes, reason: str) -> None:
    data = make_entry().dump()
    assert old in data
    assert reason in refuse(data.replace(old, new, 1))


@pytest.mark.parametrize(
    "path",
    [
        "README.md", "decisions/../decisions/x-{}.md", "/decisions/x-{}.md", "decisions/x-{}.md/y", "notes/x-{}.MD",
        "decisions/-{}.md", "decisions/x-{}.md\n", "decisions/\udc80-{}.md", "elsewhere/x-{}.md", "decisions\\x-{}.md",
    ],
)  # fmt: skip
def test_a_file_of_another_name_is_refused(path: str) -> None:
    entry = make_entry()
    assert "no name" in refuse(entry.dump(), path.format(entry.id))


def test_an_entry_stays_in_its_folder() -> None:
    entry = make_entry()
    assert "wrong folder" in refuse(entry.dump(), f"rules/x-{entry.id}.md")


def test_references_are_ids_in_order() -> None:
    team = Team.begin()
    low, high = sorted([team.say("ana", "one"), team.say("ana", "two")])
    good = team.entries[team.say("ana", "three", replaces=(low, high))]
    assert parse_entry(good.path, good.dump()).replaces == (low, high)
    for wrong in ((high, low), (low, low), ("../x",)):
        entry = team.sign(TeamEntry("note", project="p", said="2026-05-01T10:00:00Z", text="x", replaces=wrong), "ana")
        assert "references" in refuse(entry.dump(), name_file(entry.dump(), "notes"))


def test_a_kind_has_its_own_fields_only() -> None:
    team = Team.begin()
    for entry in (
        TeamEntry("withdrawal", withdraws="0" * 32, text="and a text"),
        TeamEntry("withdrawal", withdraws="0" * 32, project="p"),
        TeamEntry("withdrawal"),
        TeamEntry("member", name="ben", role="king", key=key_of("ben").public),
        TeamEntry("member", name="../ben", role="member", key=key_of("ben").public),
        TeamEntry("member", name="ben", role="member", key="short"),
    ):
        signed = team.sign(entry, "ana")
        assert refuse(signed.dump(), name_file(signed.dump(), signed.path.partition("/")[0]))


def test_a_secret_is_found_after_the_redaction_of_the_text() -> None:
    secret = "sk-ant-api03-" + "Zq8Rw2Lx" * 11 + "-AAAA"
    entry = make_entry(f"The key is {secret}.")
    assert parse_entry(entry.path, entry.dump()) == entry  # the form does not depend on a release's list of secrets
    assert "secret" in find_secret(entry)
    assert not find_secret(make_entry())


def test_the_signature_covers_every_field() -> None:
    from pipelines.team.keys import verify

    entry = make_entry(topic="deploy", item="0" * 16)
    assert verify(key_of("ana").public, entry.signed_bytes, entry.signature)
    for name in TeamEntry.__slots__:
        if name == "signature":
            continue
        values = {one: getattr(entry, one) for one in TeamEntry.__slots__}
        values[name] = ("0" * 32,) if isinstance(values[name], tuple) else f"{values[name]}x"
        assert not verify(key_of("ana").public, TeamEntry(**values).signed_bytes, entry.signature), name


def test_a_value_cannot_end_its_line() -> None:
    entry = make_entry(topic='a"\nsigner: "b')
    assert b'topic: "a\\"\\nsigner' in entry.dump()
    assert json.loads(entry.dump().split(b"topic: ")[1].split(b"\n")[0]) == entry.topic
    assert "hidden" in refuse(entry.dump())
