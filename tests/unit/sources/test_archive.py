import io
import os
import shutil
import stat
import struct
import zipfile
from datetime import UTC, datetime

import pytest

from helix.errors import InputRefused
from helix.sources.common import archive
from tests.support.turns import cases, load_texts

WHEN = (2026, 5, 4, 10, 0, 0)
MEGA = 1 << 20


def member(name, when=WHEN, mode=0o644):
    found = zipfile.ZipInfo("x", when)
    found.filename = name  # as it is: the constructor would tidy it
    found.external_attr = mode << 16
    found.compress_type = zipfile.ZIP_DEFLATED
    return found


def pack(path, members):
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            file.writestr(name if isinstance(name, zipfile.ZipInfo) else member(name), data)
    return path


def unpack(tmp_path, members, limit=MEGA, total=10 * MEGA):
    """Return the extracted files of an archive with these members."""
    path, folder = pack(tmp_path / "export.zip", members), tmp_path / "out"
    shutil.rmtree(folder, ignore_errors=True)
    archive.unpack(path, folder, limit, total)
    return {found.relative_to(folder).as_posix(): found.read_bytes() for found in folder.rglob("*") if found.is_file()}


def check_refusal(tmp_path, members, why, **limits):
    with pytest.raises(InputRefused, match=why) as error:
        unpack(tmp_path, members, **limits)
    assert "export.zip" in error.value.what
    assert error.value.remedy


def list_names(tmp_path):
    return sorted(path.name for path in tmp_path.iterdir())


def test_text_files_are_extracted_under_their_own_names(tmp_path):
    taken = {
        "conversations.json": b"[]", "general/2026-05-04.json": b"[1]", "projects/p.json": b"{}",
        "a/b/c/log.jsonl": b"{}\n", "notes.md": b"# a", "NOTES.MARKDOWN": b"# b", "FC:F01:Plan/2026-05-04.json": b"[2]",
        "call.vtt": b"WEBVTT", "call.SRT": b"1", "t.txt": "Zürich".encode(), "./here.txt": b"h",
        "deep\\windows.txt": b"w"}  # fmt: skip
    left = {
        "chat.html": b"<html>", "image.png": b"\x89PNG", "audio.dat": b"\0", "no suffix": b"x", ".hidden.json": b"{}",
        ".git/x.json": b"{}", "__MACOSX/._conversations.json": b"x", "a/__MACOSX/x.json": b"x", "folder.json/": b"",
        "nested.zip": b"PK"}  # fmt: skip
    found = unpack(tmp_path, {**taken, **left})
    assert found == {name.replace("\\", "/").removeprefix("./"): data for name, data in taken.items()}


def test_a_member_keeps_its_time_and_one_without_has_that_of_the_archive(tmp_path):
    path = pack(
        tmp_path / "x.zip",
        {"a.txt": b"a", member("b.txt", (1980, 1, 1, 0, 0, 0)): b"b", member("c.txt", (2026, 2, 30, 0, 0, 0)): b"c"},
    )
    os.utime(path, (1_000_000_000, 1_000_000_000))
    archive.unpack(path, tmp_path / "out", MEGA, MEGA)
    times = {found.name: found.stat().st_mtime for found in (tmp_path / "out").iterdir()}
    assert times == {"a.txt": datetime(*WHEN, tzinfo=UTC).timestamp(), "b.txt": 1e9, "c.txt": 1e9}


@cases("method", zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
def test_every_compression(tmp_path, method):
    found = member("a.txt")
    found.compress_type = method
    assert unpack(tmp_path, {found: b"x" * 5_000}) == {"a.txt": b"x" * 5_000}


def test_links_are_neither_made_nor_followed(tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    link = member("link.txt", mode=stat.S_IFLNK | 0o777)
    folder = member("linked.txt", mode=stat.S_IFLNK | 0o777)
    found = unpack(tmp_path, {link: b"../secret.txt", folder: b"..", "linked/a.txt": b"a"})
    assert found == {"linked/a.txt": b"a"}
    assert not any(path.is_symlink() for path in tmp_path.rglob("*"))


@cases("name", *load_texts("archive", "names_that_lead_outside_refuse_the_archive"))
def test_names_that_lead_outside_refuse_the_archive(tmp_path, name):
    check_refusal(tmp_path, {"a.txt": b"a", name: b"x"}, "outside of its folder")
    assert list_names(tmp_path) == ["export.zip", "out"]
    assert not list((tmp_path / "out").rglob("out.json"))


def test_a_file_is_no_program_and_dots_in_a_name_are_a_name(tmp_path):
    unpack(tmp_path, {member("a.txt", mode=0o4777): b"a"})
    assert not (tmp_path / "out" / "a.txt").stat().st_mode & 0o7111
    assert unpack(tmp_path, {"a..b/...c/x": b"", "a..b/x...json": b"x"}) == {"a..b/x...json": b"x"}


def test_limits_count_inflated_bytes_of_read_members(tmp_path):
    assert unpack(tmp_path, {"a.txt": b"x" * 100}, limit=100) == {"a.txt": b"x" * 100}
    check_refusal(tmp_path, {"a.txt": b"a", "big.txt": b"0" * (3 * MEGA)}, r"'big\.txt' has more than 1048576 bytes")
    assert (tmp_path / "out" / "big.txt").stat().st_size <= MEGA
    members = {f"{n}.txt": b"x" * 400 for n in range(3)}
    assert len(unpack(tmp_path, members, total=1_200)) == 3
    check_refusal(
        tmp_path, {f"{n}.txt": b"x" * 400 for n in range(3)}, r"'2\.txt' has more than 399 bytes", total=1_199
    )
    assert unpack(tmp_path, {"big.png": b"0" * 5_000, "a.txt": b"a"}, limit=10, total=10) == {"a.txt": b"a"}


def test_a_size_in_the_header_is_not_believed(tmp_path):
    path = pack(tmp_path / "export.zip", {"a.txt": b"0" * (2 * MEGA)})
    data = path.read_bytes()
    size = struct.pack("<I", 2 * MEGA)
    assert data.count(size) == 2
    path.write_bytes(data.replace(size, struct.pack("<I", 10)))
    with pytest.raises(InputRefused, match=r"'a\.txt'"):
        archive.unpack(path, tmp_path / "out", MEGA, MEGA)
    assert (tmp_path / "out" / "a.txt").stat().st_size <= MEGA


def test_encrypted_members_are_refused_by_name(tmp_path):
    path = pack(tmp_path / "export.zip", {"a.txt": b"secret"})
    data = bytearray(path.read_bytes())
    for header, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(header) + flags] |= 1
    path.write_bytes(data)
    with pytest.raises(InputRefused, match=r"'a\.txt' is encrypted.*password"):
        archive.unpack(path, tmp_path / "out", MEGA, MEGA)


def test_a_damaged_member_is_refused_by_name(tmp_path):
    path = pack(tmp_path / "export.zip", {"a.txt": os.urandom(5_000)})
    data = bytearray(path.read_bytes())
    data[2_000] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(InputRefused, match=r"'a\.txt' cannot be read.*damaged"):
        archive.unpack(path, tmp_path / "out", MEGA, MEGA)


def test_any_damage_is_a_refusal(tmp_path):
    whole = pack(tmp_path / "whole.zip", {"a.txt": b"some text " * 20, "b/c.json": b"[1, 2, 3]"}).read_bytes()
    path = tmp_path / "export.zip"
    for place in range(len(whole)):
        for broken in (whole[:place], whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]):
            path.write_bytes(broken)
            folder = tmp_path / f"{place}-{len(broken)}"
            try:
                archive.unpack(path, folder, MEGA, MEGA)
            except InputRefused:
                continue
            assert all(folder in found.parents for found in folder.rglob("*"))


def test_two_members_of_one_name_are_refused(tmp_path):
    with pytest.warns(UserWarning, match="Duplicate name"):
        pack(tmp_path / "export.zip", {member("a.txt"): b"1", member("a.txt"): b"2"})
    with pytest.raises(InputRefused, match=r"'a\.txt' is in it twice"):
        archive.unpack(tmp_path / "export.zip", tmp_path / "out", MEGA, MEGA)


def test_a_full_disk_is_no_fault_of_the_archive(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "utime", full)
    with pytest.raises(OSError, match="No space left"):
        unpack(tmp_path, {"a.txt": b"a"})


def test_too_many_members_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_MEMBERS", 3)
    assert len(unpack(tmp_path, {f"{n}.txt": b"" for n in range(3)})) == 3
    check_refusal(tmp_path, {f"{n}.txt": b"" for n in range(4)}, "4 members; at most 3")
    monkeypatch.setattr(archive, "_LIST_BYTES", 4_000)
    check_refusal(tmp_path, {f"{n}.txt": b"" for n in range(100)}, "too many members")


@cases("members", {}, {"chat.html": b"x", ".a.json": b"x", "folder/": b""})
def test_an_archive_without_text_is_refused(tmp_path, members):
    check_refusal(tmp_path, members, r"nothing in it is text.*\.json, \.jsonl")


def test_names_of_no_file_and_other_files_are_refused(tmp_path):
    check_refusal(tmp_path, {"a.txt": b"1", "a.txt/b.txt": b"2"}, r"'a\.txt/b\.txt' cannot be read")
    check_refusal(tmp_path, {"x" * 300 + ".txt": b"1"}, "cannot be read")
    path = tmp_path / "x.zip"
    path.write_text("PK is how they begin")
    with pytest.raises(InputRefused, match="cannot be read"):
        archive.unpack(path, tmp_path / "out", MEGA, MEGA)


def test_an_archive_is_recognised_by_its_content(tmp_path):
    path = pack(tmp_path / "export.json", {"a.txt": b"a"})
    assert archive.is_archive(path)
    assert archive.is_archive(pack(tmp_path / "empty", {}))
    for text in (b"", b"PK", b"PKZIP", b"[]", b"\x1f\x8b\x08\x00"):
        other = tmp_path / "other.zip"
        other.write_bytes(text)
        assert not archive.is_archive(other)
    assert not archive.is_archive(tmp_path / "missing.zip")
    assert not archive.is_archive(tmp_path)


def test_the_archive_is_only_read(tmp_path):
    path = pack(tmp_path / "export.zip", {"a.txt": b"a"})
    before = path.read_bytes()
    path.chmod(0o400)
    archive.unpack(path, tmp_path / "out", MEGA, MEGA)
    assert path.read_bytes() == before
    assert zipfile.is_zipfile(io.BytesIO(before))
