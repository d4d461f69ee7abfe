"""URLs of every kind that is none: one clear error each, before anybody connects, and without what it may hide."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import helix
from helix.deep.endpoint import endpoint_of
from helix.errors import UsageError
from helix.settings import Settings, load
from helix.snapshot.replication import remote as sync

WEB = [
    *("h", "h:80", "http:h", "ftp://h/", "//h/", " http://h/", "http://h/ ", "file:///v1", "http://[half", "redis://h"),
    *("http://", "http:///v1", "http://:80/", "http://.", "http://a..b/", "http://é..x/", "http://u:hunter2@/"),
    *("http://h h/", "http://h,/", "http://[zz]/", "http://[::1]x:80/", "http://[::1/", f"http://{'a' * 64}.example/"),
    *("http://h\n/", "http://h/\0", "http://h/\u202e", "http://h\udcff/", "http://h\t:80/"),
    *("http://h:99999999/v1", "http://h:65536/", "http://h:0/", "http://h:-1/", "http://h:abc/", "http://h:80:90/"),
    *("http://h:１２/", "http://h:+80/", "http://h:8_0/", f"http://h:{'9' * 5000}/", "http://h/?q=1", "http://h/v1#x"),
]
WEB_GOOD = [
    *("http://h/", "HTTP://h/v1", "http://h:/", "http://[::1]:80/v1", "https://é.example/v1", "http://u:p@h:1/"),
    *("http://my_host:65535/a/b", "http://[fe80::1%25eth0]/", "http://127.0.0.1:11434/v1", "http://h."),
]
REDIS = [
    *("h", "http://h", "amqp://h", "unix:///run/redis.sock", "sentinel://a:1;sentinel://b:1", "redis://h;redis://g"),
    *(
        "redis://h:99999999/0",
        "redis://h:abc/0",
        "redis://h:0/",
        "redis://:hunter2@:6379/0",
        "redis://[::1",
        "redis://h /",
    ),
    *("redis://h/abc", "redis://h/0/1", "redis://h/-1", "redis+socket://", "redis+socket://h", "redis://h\n/0"),
]
REDIS_GOOD = [
    *(
        "redis://localhost:6379/0",
        "redis://:p@h:6379/0",
        "rediss://u:p@h/?ssl_cert_reqs=required",
        "redis://",
        "redis://h",
    ),
    *("redis:///1", "redis+socket:///run/redis.sock", "redis+socket:///run/redis.sock?virtual_host=1"),
]
PLACES = [
    *(
        "ftp://h/x",
        "http://h/x",
        "s3://[half",
        "s3://bucket/a\0b",
        "s3://bucket/a%00b",
        "file:///a%00b",
        "/a\0b",
        "\udcff/x",
    ),
    *(
        f"s3://bucket/x?region=r&endpoint_override={h}"
        for h in ("h:99999999", "h:abc", "[::1", "a..b", "http://h:0", "h h")
    ),
]
PLACES_GOOD = [
    *("/a folder", "a/b", "file:///a%20folder", "s3://bucket/my folder?region=r", "s3://bucket?region=r"),
    *(f"s3://bucket/x?region=r&endpoint_override={h}" for h in ("127.0.0.1:9000", "http://h:9000", "h.example/minio")),
]


def deep(url: str) -> None:
    endpoint_of(Settings(deep_url=url, deep_model="m"))


def setting(name: str) -> Callable[[str], object]:
    return lambda url: load({name: url})


def connect(url: str) -> None:
    helix.connect(url).close()


def outcome(check: Callable[[str], object], url: str) -> str:
    """`taken` or `refused`; else what is wrong with the refusal."""
    try:
        check(url)
    except UsageError as error:
        said = str(error)
        hidden = [part for part in ("hunter2", "99999999") if part in url and part in said]
        return "refused" if error.remedy and said.isprintable() and not hidden else f"says {said!r}"
    except Exception as error:  # noqa: BLE001 — whatever it is
        return f"raises {error!r}"
    return "taken"


@pytest.mark.parametrize(
    ("check", "bad", "good"),
    [
        (deep, WEB, WEB_GOOD),
        (setting("HELIX_DEEP_URL"), WEB, WEB_GOOD),
        (connect, WEB, WEB_GOOD),
        (setting("HELIX_REDIS_URL"), REDIS, REDIS_GOOD),
        (setting("HELIX_SHARE"), [url for url in PLACES if "endpoint" not in url], PLACES_GOOD),
        (sync.connect, PLACES, PLACES_GOOD),
    ],
    ids=["endpoint", "deep", "connect", "redis", "share", "push"],
)
def test_what_is_taken_and_what_is_refused(check: Callable[[str], object], bad: list[str], good: list[str]) -> None:
    wanted = {**dict.fromkeys(bad, "refused"), **dict.fromkeys(good, "taken")}
    found = {url: outcome(check, url) for url in wanted}
    assert {url: said for url, said in found.items() if said != wanted[url]} == {}


def test_a_setting_is_named() -> None:
    for name, url in (("DEEP_URL", "http://h:99999999"), ("REDIS_URL", "redis://h:x"), ("SHARE", "ftp://h")):
        with pytest.raises(UsageError, match=rf"^HELIX_{name} .*; give one like "):
            load({f"HELIX_{name}": url})


PIECES = st.sampled_from(
    ["http://", "https://", "h", "é", ":", "[", "]", "::1", "@", ".", "/", "?", "#", "%", "80", "\\", " "]
)


@settings(max_examples=300)
@given(
    st.one_of(
        st.text(),
        st.lists(PIECES, max_size=8).map("".join),
        st.lists(PIECES, max_size=8).map(lambda found: "http://" + "".join(found)),
    )
)
def test_no_text_is_a_traceback(url: str) -> None:
    for check in (deep, connect, setting("HELIX_REDIS_URL")):
        with suppress(UsageError):
            check(url)
