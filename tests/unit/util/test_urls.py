"""Malformed URLs of every kind: each raises one clear error that repeats no password, before anything connects."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

import helix
from helix.deep.endpoint import read_endpoint
from helix.errors import UsageError
from helix.settings import Settings, load
from helix.snapshot.replication import object_store
from tests.support.draws import draw_share

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
    *("redis://h:99999999/0", "redis://h:abc/0", "redis://h:0/", "redis://:hunter2@:6379/0", "redis://[::1"),
    *("redis://h /", "redis://h/abc", "redis://h/0/1", "redis://h/-1", "redis+socket://", "redis+socket://h"),
    "redis://h\n/0",
]
REDIS_GOOD = [
    *("redis://localhost:6379/0", "redis://:p@h:6379/0", "rediss://u:p@h/?ssl_cert_reqs=required", "redis://"),
    *("redis://h", "redis:///1", "redis+socket:///run/redis.sock", "redis+socket:///run/redis.sock?virtual_host=1"),
]
HOSTS = ("h:99999999", "h:abc", "[::1", "a..b", "http://h:0", "h h")
STORES = [
    *("ftp://h/x", "http://h/x", "s3://[half", "s3://bucket/a\0b", "s3://bucket/a%00b", "file:///a%00b", "/a\0b"),
    "\udcff/x",
    *(f"s3://bucket/x?region=r&endpoint_override={host}" for host in HOSTS),
]
STORES_GOOD = [
    *("/a folder", "a/b", "file:///a%20folder", "s3://bucket/my folder?region=r", "s3://bucket?region=r"),
    *(f"s3://bucket/x?region=r&endpoint_override={h}" for h in ("127.0.0.1:9000", "http://h:9000", "h.example/minio")),
]


def deep(url: str) -> None:
    read_endpoint(Settings(deep_url=url, deep_model="m"))


def setting(name: str) -> Callable[[str], object]:
    return lambda url: load({name: url})


def connect(url: str) -> None:
    helix.connect(url).close()


def outcome(check: Callable[[str], object], url: str) -> str:
    """Return `accepted` or `refused`, or what is wrong with the refusal."""
    try:
        check(url)
    except UsageError as error:
        text = str(error)
        leaked = [part for part in ("hunter2", "99999999") if part in url and part in text]
        return "refused" if error.remedy and text.isprintable() and not leaked else f"says {text!r}"
    except Exception as error:  # noqa: BLE001 — any other error is a fault
        return f"raises {error!r}"
    return "accepted"


@pytest.mark.parametrize(
    ("check", "bad", "good"),
    [
        (deep, WEB, WEB_GOOD),
        (setting("HELIX_DEEP_URL"), WEB, WEB_GOOD),
        (setting("HELIX_RERANK_URL"), WEB, WEB_GOOD),
        (connect, WEB, WEB_GOOD),
        (setting("HELIX_REDIS_URL"), REDIS, REDIS_GOOD),
        (setting("HELIX_SHARE"), [url for url in STORES if "endpoint" not in url], STORES_GOOD),
        (object_store.connect, STORES, STORES_GOOD),
    ],
    ids=["endpoint", "deep", "rerank", "connect", "redis", "share", "push"],
)
def test_bad_urls_are_refused_and_good_ones_accepted(
    check: Callable[[str], object], bad: list[str], good: list[str]
) -> None:
    wanted = {**dict.fromkeys(bad, "refused"), **dict.fromkeys(good, "accepted")}
    results = {url: outcome(check, url) for url in wanted}
    assert {url: result for url, result in results.items() if result != wanted[url]} == {}


def test_the_error_names_the_setting() -> None:
    for name, url in (("DEEP_URL", "http://h:99999999"), ("REDIS_URL", "redis://h:x"), ("SHARE", "ftp://h")):
        with pytest.raises(UsageError, match=rf"^HELIX_{name} .*; give one like "):
            load({f"HELIX_{name}": url})


SCHEMES = ("http://", "https://")
PIECES = st.sampled_from([*SCHEMES, *"hé:[]@./?#%\\ ", "::1", "80"])
JOINED = st.lists(PIECES, max_size=8).map("".join)


@draw_share(2)
@given(st.one_of(st.text(), JOINED, JOINED.map("http://".__add__)))
def test_any_text_raises_only_usage_errors(url: str) -> None:
    for check in (deep, connect, setting("HELIX_REDIS_URL")):
        with suppress(UsageError):
            check(url)
