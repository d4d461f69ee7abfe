"""What somebody may write into the broker: a real worker drops it, counts it, and works on.

Raw elements are pushed into a real Redis, as anybody could who reaches it.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import random
import subprocess
import sys
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import redis
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

from helix.snapshot import paths
from tests.crash.test_workers import until, worker
from workers.app import QUEUES
from workers.messages import MOST

MARK: Final = "zorbified harp"
"""Stands in everything that is dropped, and must not be in a log."""

DEEP: Final = 5_000
"""Brackets in one another, in fewer bytes than a message may have."""


def name(number: int) -> str:
    return f"{number:064x}"


def element(
    task: str = "helix.enrich",
    names: Any = (),
    *,
    headers: Any = (),
    properties: Any = (),
    embed: Any = (),
    body: bytes | None = None,
    **top: Any,
) -> bytes:
    """What Celery puts into a queue, but for what is given."""
    identity = str(uuid.uuid4())
    nothing = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    body = json.dumps([names, {}, {**nothing, **dict(embed)}]).encode() if body is None else body
    said = {
        "body": base64.b64encode(body).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {
            "lang": "py",
            "task": task,
            "id": identity,
            "shadow": None,
            "eta": None,
            "expires": None,
            "retries": 0,
            "timelimit": [None, None],
            "root_id": identity,
            "parent_id": None,
            "argsrepr": MARK,
            "kwargsrepr": "{}",
            "origin": "elsewhere",
            "ignore_result": True,
            **dict(headers),
        },
        "properties": {
            "correlation_id": identity,
            "reply_to": identity,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": "enrich"},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": identity,
            **dict(properties),
        },
        **top,
    }
    return json.dumps(said).encode()


def without(key: str, of: str = "") -> bytes:
    said = json.loads(element(names=[name(1)]))
    del (said[of] if of else said)[key]
    return json.dumps(said).encode()


class _Call:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("false",)


def malformed(victim: Path) -> dict[str, bytes]:
    """Elements that are no message of ours."""
    good = element(names=[name(1)])
    pickled = {"content-type": "application/x-python-serialize", "content-encoding": "binary"}
    return {
        "not JSON": b"zorbified harp",
        "nothing": b"",
        "an object": b"{}",
        "a list": b"[]",
        "a number": b"5",
        "a text": b'"zorbified harp"',
        "null": b"null",
        "not UTF-8": b"\xff\xfe\x00\x01zorbified harp",
        "cut": good[:-20],
        "not a number": b"NaN",
        "deep": b"[" * DEEP,
        "deep and closed": b"[" * DEEP + b"]" * DEEP,
        "large": good + b" " * MOST,
        "no properties": without("properties"),
        "no headers": without("headers"),
        "no body": without("body"),
        "no content type": without("content-type"),
        "no encoding": without("content-encoding"),
        "no task": without("task", "headers"),
        "no body encoding": without("body_encoding", "properties"),
        "headers a list": json.dumps({**json.loads(good), "headers": [MARK]}).encode(),
        "headers a text": json.dumps({**json.loads(good), "headers": MARK}).encode(),
        "properties a list": json.dumps({**json.loads(good), "properties": [MARK]}).encode(),
        "body a number": json.dumps({**json.loads(good), "body": 5}).encode(),
        "body an object": json.dumps({**json.loads(good), "body": {"zorbified": "harp"}}).encode(),
        "task a list": element(names=[name(1)], headers={"task": ["helix.enrich"]}),
        "task unknown": element("helix.unknown", [name(1)]),
        "task of Celery": element("celery.map", [{"task": "helix.enrich"}, [[name(1)]]]),
        "task of another queue": element("helix.commit"),
        "pickle": element(body=pickle.dumps(_Call()), **pickled),
        "YAML": element(body=b"!!python/object/apply:os.system ['false']", **{"content-type": "application/x-yaml"}),
        "content of no kind": element(names=[name(1)], **{"content-type": "application/zorbified-harp"}),
        "content type a list": element(names=[name(1)], **{"content-type": []}),
        "signed by nobody": element(names=[name(1)], **{"content-type": "application/data"}),
        "encoding unknown": element(names=[name(1)], **{"content-encoding": "rot13"}),
        "encoding zlib": element(names=[name(1)], **{"content-encoding": "zlib"}),
        "body encoding unknown": element(names=[name(1)], properties={"body_encoding": "rot13"}),
        "body encoding none": element(names=[name(1)], properties={"body_encoding": None}),
        "not base64": good.replace(b'"body": "', b'"body": "!!!', 1),
        "base64 of other letters": good.replace(b'"body": "', '"body": "é'.encode(), 1),
        "body not JSON": element(body=b"\xff\xfe{{{"),
        "body a number in JSON": element(body=b"5"),
        "body an object in JSON": element(body=b'{"args": [], "kwargs": {}}'),
        "body deep": element(body=b"[" * DEEP + b"]" * DEEP),
        "body of two": element(body=json.dumps([[name(1)], {}]).encode()),
        "body of four": element(body=json.dumps([[name(1)], {}, {}, {}]).encode()),
        "compressed": element(
            body=zlib.compress(b"[" + b"1," * 3_000_000 + b"1]", 9), headers={"compression": "application/x-gzip"}
        ),
        "no name": element(names=[]),
        "names no list": element(names={"document": name(1)}),
        "two names": element(names=[name(1), name(2)]),
        "a name of another kind": element(names=[5]),
        "a list for a name": element(names=[[name(1)]]),
        "a path": element(names=[str(victim)], headers={"timelimit": [0.06, 0.05]}),
        "a path upwards": element(names=["../" * 8 + str(victim)]),
        "an empty name": element(names=[""]),
        "a name in capitals": element(names=[name(10).upper()]),
        "a name and a line": element(names=[name(1) + "\n"]),
        "a name of other digits": element(names=["١" * 64]),
        "named arguments": element(body=json.dumps([[], {"document": name(1)}, {}]).encode()),
    }


FORGED: Final[dict[str, dict[str, Any]]] = {
    "time limits": {"headers": {"timelimit": [0.0001, 0.0001]}},
    "time limits of no kind": {"headers": {"timelimit": "zorbified harp"}},
    "expired": {"headers": {"expires": "2020-01-01T00:00:00"}},
    "expires at no time": {"headers": {"expires": "zorbified harp"}},
    "later": {"headers": {"eta": "9999-12-31T00:00:00"}},
    "at no time": {"headers": {"eta": {"zorbified": "harp"}}},
    "retries": {"headers": {"retries": -(10**9)}},
    "retries of no kind": {"headers": {"retries": ["zorbified harp"]}},
    "no id": {"headers": {"id": None}},
    "an id of no kind": {"headers": {"id": {"zorbified": "harp"}, "root_id": 5, "parent_id": []}},
    "a shadow": {"headers": {"shadow": "zorbified harp"}},
    "a group": {"headers": {"group": "zorbified harp", "group_index": "zorbified harp"}},
    "stamps": {"headers": {"stamped_headers": 5, "stamps": "zorbified harp"}},
    "callbacks": {"embed": {name: [{"task": "helix.commit", "args": [MARK]}] for name in ("callbacks", "errbacks")}},
    "a chain": {"embed": {"chain": [{"task": "helix.commit", "args": [MARK], "options": {"queue": "elsewhere"}}]}},
    "a chord": {"embed": {"chord": {"task": "helix.commit", "args": [MARK], "options": {"queue": "elsewhere"}}}},
    "no tag": {"properties": {"delivery_tag": None}},
    "a tag of no kind": {"properties": {"delivery_tag": {"zorbified": "harp"}}},
    "no delivery": {"properties": {"delivery_info": None}},
    "a delivery elsewhere": {"properties": {"delivery_info": {"exchange": "zorbified", "routing_key": "harp"}}},
    "a priority of no kind": {"properties": {"priority": "zorbified harp"}},
    "a reply": {"properties": {"reply_to": "zorbified harp", "correlation_id": []}},
}
"""What a message may say that is not read: each is worked on like any other."""


def held_by_nobody() -> dict[str, bytes]:
    """What `unacked` may hold: as if workers had had it, and died."""
    good = json.loads(element(names=[name(1)]))
    return {
        "not JSON": b"zorbified harp",
        "a number": b"5",
        "an object": b'{"a": 1, "b": 2, "c": "enrich"}',
        "of two": json.dumps([good, ""]).encode(),
        "no message": json.dumps([5, "", "enrich"]).encode(),
        "large": json.dumps([{**good, "body": "A" * 5 * MOST}, "", "enrich"]).encode(),
        "of no queue": json.dumps([good, "", ["enrich"]]).encode(),
        "of another queue": json.dumps([good, "", "zorbified harp"]).encode(),
        "a path": json.dumps([json.loads(element(names=["/zorbified harp"])), "", "enrich"]).encode(),
    }


# ---------------------------------------------------------------- a worker


@dataclass
class Working:
    """A worker, and what can be seen of it."""

    root: Path
    log: Path
    counted: Path
    client: redis.Redis
    process: subprocess.Popen[bytes]

    def dropped(self) -> int:
        """How many elements it has dropped."""
        registry = CollectorRegistry()
        MultiProcessCollector(registry, path=str(self.counted))
        samples = (sample for metric in registry.collect() for sample in metric.samples)
        return sum(int(sample.value) for sample in samples if sample.name == "helix_messages_dropped_total")

    def worked_on(self) -> set[str]:
        """Documents that a task of this worker was called with."""
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.startswith('{"time"')]
        return {str(said["document"]) for line in lines if "document" in (said := json.loads(line))}

    def until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        until(lambda: condition() or self.process.poll() is not None, seconds, self.log)
        assert self.process.poll() is None, self.log.read_text(errors="replace")[-6000:]
        assert condition()

    def push(self, *elements: bytes) -> None:
        self.client.lpush("enrich", *elements)

    def gets(self, number: int) -> None:
        """A message of ours still gets through."""
        self.push(element(names=[name(number)]))
        self.until(lambda: name(number) in self.worked_on())

    def is_clean(self) -> None:
        """Nothing is left of what was pushed, in the broker, the store or the log."""
        self.until(lambda: not any(self.client.exists(key) for key in (*QUEUES, "unacked", "unacked_index")), 20)
        assert not any((self.root / "tries").iterdir())
        assert not any((self.root / "dead").iterdir())
        said = self.log.read_text(errors="replace")
        assert "zorbified" not in said
        assert "Traceback" not in said


@contextmanager
def working(folder: Path, url: str, **environ: str) -> Iterator[Working]:
    root, log, counted = folder / "store", folder / "log", folder / "counted"
    paths.create(root)
    counted.mkdir()
    log.touch()
    client = redis.Redis.from_url(url)
    environ = {
        "PROMETHEUS_MULTIPROC_DIR": str(counted),
        "HELIX_TASK_TIME_LIMIT": "100",
        "HELIX_VISIBILITY_TIMEOUT": "110",  # so that what nobody has is looked for every ten seconds
        **environ,
    }
    with worker(root, url, "enrich", log, **environ) as process:
        made = Working(root, log, counted, client, process)
        made.until(lambda: "reconcile begins" in log.read_text(errors="replace"))
        yield made


@pytest.fixture
def broker(redis_url: str) -> Iterator[str]:
    """An empty Redis, which is left so."""
    client = redis.Redis.from_url(redis_url)
    client.flushall()
    yield redis_url
    client.flushall()


def test_what_is_no_message_of_ours_is_dropped_and_the_worker_works_on(tmp_path: Path, broker: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    held = held_by_nobody()
    client = redis.Redis.from_url(broker)
    client.hset("unacked", mapping=held)
    client.zadd("unacked_index", dict.fromkeys(held, 1.0))
    bad = malformed(victim)
    alive = tmp_path / "alive"
    with working(tmp_path, broker, HELIX_ALIVE=str(alive)) as made:
        os.utime(alive, (1, 1))
        made.push(*bad.values())
        made.until(lambda: made.dropped() >= len(bad) + len(held))
        made.gets(900)
        made.push(*(element(names=[name(i)], **said) for i, said in enumerate(FORGED.values(), 1_000)))
        wanted = {name(i) for i, _ in enumerate(FORGED, 1_000)}
        made.until(lambda: wanted <= made.worked_on())
        assert made.dropped() == len(bad) + len(held)
        made.is_clean()
        made.until(lambda: alive.stat().st_mtime > 1)  # it says again that it is at work
    assert victim.read_text() == "precious"


def test_nobody_controls_a_worker_through_the_broker(tmp_path: Path, broker: str) -> None:
    from celery import Celery

    with working(tmp_path, broker) as made, Celery(broker=broker) as stranger:
        assert stranger.control.ping(timeout=1) == []
        stranger.control.broadcast("shutdown")
        made.gets(1)
        assert not made.client.exists("_kombu.binding.celery.pidbox")


# ---------------------------------------------------------------- signed


@dataclass(frozen=True)
class Signer:
    """Somebody with a key and its certificate."""

    key: Path
    certificate: Path

    @classmethod
    def make(cls, folder: Path, who: str) -> Signer:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import rsa

        key = rsa.generate_private_key(65_537, 2_048)
        called = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, who)])
        now = datetime.now(UTC)
        made = x509.CertificateBuilder(called, called, key.public_key(), x509.random_serial_number())
        made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        signer = cls(folder / f"{who}.key", folder / f"{who}.pem")
        signer.key.write_bytes(key.private_bytes(*plain))
        signer.certificate.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return signer

    def environ(self, known: Path) -> dict[str, str]:
        return {
            "HELIX_MESSAGE_KEY": str(self.key),
            "HELIX_MESSAGE_CERTIFICATE": str(self.certificate),
            "HELIX_MESSAGE_CERTIFICATES": str(known),
        }


def folder_of(path: Path, *certificates: Path) -> Path:
    path.mkdir()
    for certificate in certificates:
        (path / certificate.name).write_bytes(certificate.read_bytes())
    return path


SEND = """
import json, sys
from dataclasses import replace
from helix.errors import UsageError
from helix.settings import load
url, environs = sys.argv[1], json.loads(sys.argv[2])
from workers.app import create
said = []
for number, environ in enumerate(environs):
    try:
        app = create(replace(load(environ), redis_url=url))
        app.send_task("helix.enrich", args=[f"{number:064x}"], queue="enrich")
        said.append("")
    except UsageError as error:
        said.append(str(error))
print(json.dumps(said))
"""


def send(url: str, *environs: dict[str, str]) -> list[str]:
    """Send a message as a process of Helix with these settings would, each in turn; what is said against it."""
    command = [sys.executable, "-c", SEND, url, json.dumps(environs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [str(line) for line in json.loads(done.stdout)]


def test_where_messages_are_signed_only_those_are_worked_on(tmp_path: Path, broker: str) -> None:
    ours, other, stranger = (Signer.make(tmp_path, who) for who in ("ours", "other", "stranger"))
    known = folder_of(tmp_path / "known", ours.certificate, other.certificate)
    everybody = folder_of(tmp_path / "everybody", stranger.certificate, ours.certificate)
    client = redis.Redis.from_url(broker)
    assert not any(send(broker, {}, stranger.environ(everybody), other.environ(known), ours.environ(known)))
    unsigned, strange, good, own = reversed(client.lrange("enrich", 0, -1))
    client.delete("enrich")
    said = json.loads(good)
    signed = base64.b64decode(base64.b64decode(said["body"])).split(b"\0\1")
    changed = [
        [*signed[:4], signed[4].replace(b"2", b"4")],  # other words under the signature
        [base64.b64encode(b"stranger 5"), *signed[1:]],
        [signed[0], b"", *signed[2:]],
        signed[:3],
        [],
    ]
    bad = [unsigned, strange, *(_signed_as(said, parts) for parts in changed)]
    # A signature is not on the kind of what is signed: nobody has it read as anything but JSON.
    pickled = _signed_as(said, [*signed[:2], b"application/x-python-serialize", b"binary", signed[4]])
    with working(tmp_path, broker, **ours.environ(known)) as made:
        made.push(*bad)
        made.until(lambda: made.dropped() == len(bad))
        made.push(pickled, good, own)
        made.until(lambda: {name(2), name(3)} <= made.worked_on())
        made.is_clean()
        assert made.worked_on() == {name(2), name(3)}
        assert made.dropped() == len(bad)


def _signed_as(said: dict[str, Any], parts: list[bytes]) -> bytes:
    body = base64.b64encode(base64.b64encode(b"\0\1".join(parts))).decode()
    return json.dumps({**said, "body": body}).encode()


def test_what_messages_are_signed_with_is_looked_at_first(tmp_path: Path) -> None:
    ours, other = (Signer.make(tmp_path, who) for who in ("ours", "other"))
    known = folder_of(tmp_path / "known", ours.certificate)
    mixed = folder_of(tmp_path / "mixed", ours.certificate, ours.key)
    wrong = {
        "are not all given": {"HELIX_MESSAGE_KEY": str(ours.key)},
        "is no folder": ours.environ(tmp_path / "nosuch"),
        "holds nothing else": ours.environ(mixed),
        "No such file": {**ours.environ(known), "HELIX_MESSAGE_KEY": str(tmp_path / "nosuch")},
        "no worker would take": other.environ(known),
    }
    said = dict(zip(wrong, send("redis://127.0.0.1:1/0", *wrong.values()), strict=True))
    assert not {words: told for words, told in said.items() if words not in told}


# ---------------------------------------------------------------- at random


def _spoilt(rng: random.Random, raw: bytes) -> bytes:
    """An element with a few bytes, or one value in its JSON, in place of others."""
    if rng.random() < 0.5:
        data = bytearray(raw)
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        return bytes(data)
    said = json.loads(raw)
    part = rng.choice([said, said["headers"], said["properties"]])
    values = (None, 5, -1e308, True, [], {}, "", MARK, "x" * 9_000, [[[]]], {"a": {"b": 5}}, name(1), "enrich")
    part[rng.choice([*part, "compression", "chord"])] = rng.choice(values)
    return json.dumps(said).encode()


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_thousands_of_elements_at_random(tmp_path: Path, broker: str) -> None:
    seed = int(os.environ.get("HELIX_SEED", "1"))
    rng = random.Random(seed)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    base = [*malformed(victim).values(), *(element(names=[name(1)], **said) for said in FORGED.values())]
    with working(tmp_path, broker, HELIX_RECONCILE_INTERVAL="3600") as made:
        for turn in range(100):
            valid = [element(names=[name(rng.randrange(1 << 200))]) for _ in range(150)]
            made.push(*(_spoilt(rng, raw) for raw in valid), *rng.sample(base, 20), rng.randbytes(rng.randrange(5_000)))
            held = json.dumps([json.loads(valid[0]), "", "enrich"]).encode()
            made.client.hset("unacked", f"tag{turn}", _spoilt(rng, json.dumps(json.loads(held)[0]).encode()))
            made.client.zadd("unacked_index", {f"tag{turn}": 1.0})
            made.gets(10_000 + turn)
        assert made.dropped() > 5_000
        made.is_clean()
    assert victim.read_text() == "precious"
