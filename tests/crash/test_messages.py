"""Invalid messages in the broker: a real worker drops and counts them, and continues.

The tests push raw messages into a real Redis, as any of its clients could.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import random
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import redis
from celery import Celery
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

from helix.snapshot import paths
from tests.support.fleet import worker
from tests.support.messages import MARK, element, name
from tests.support.processes import wait_until
from workers.messages import MAX_BYTES
from workers.queues import QUEUES

DEEP: Final = 5_000
"""Nested brackets; their bytes fit into a message."""


GOOD: Final = json.loads(element(names=[name(1)]))
RAW: Final = json.dumps(GOOD).encode()
PICKLED: Final = {"content-type": "application/x-python-serialize", "content-encoding": "binary"}


def remove(key: str, section: str = "") -> bytes:
    message = json.loads(json.dumps(GOOD))
    del (message[section] if section else message)[key]
    return json.dumps(message).encode()


def change(**fields: Any) -> bytes:
    return json.dumps({**GOOD, **fields}).encode()


class _Call:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("false",)


MALFORMED: Final[dict[str, bytes]] = {
    "not JSON": b"zorbified harp", "nothing": b"", "an object": b"{}", "a list": b"[]", "a number": b"5",
    "a text": b'"zorbified harp"', "null": b"null", "not UTF-8": b"\xff\xfe\x00\x01zorbified harp", "cut": RAW[:-20],
    "not a number": b"NaN", "deep": b"[" * DEEP, "deep and closed": b"[" * DEEP + b"]" * DEEP,
    "large": RAW + b" " * MAX_BYTES,
    **{f"no {key}": remove(key) for key in ("properties", "headers", "body", "content-type", "content-encoding")},
    "no task": remove("task", "headers"), "no body encoding": remove("body_encoding", "properties"),
    "headers a list": change(headers=[MARK]), "headers a text": change(headers=MARK),
    "properties a list": change(properties=[MARK]), "body a number": change(body=5),
    "body an object": change(body={"zorbified": "harp"}),
    "task a list": element(names=[name(1)], headers={"task": ["helix.enrich"]}),
    "task unknown": element("helix.unknown", [name(1)]),
    "task of Celery": element("celery.map", [{"task": "helix.enrich"}, [[name(1)]]]),
    "task of another queue": element("helix.commit"), "pickle": element(body=pickle.dumps(_Call()), **PICKLED),
    "YAML": element(body=b"!!python/object/apply:os.system ['false']", **{"content-type": "application/x-yaml"}),
    "content of no kind": element(names=[name(1)], **{"content-type": "application/zorbified-harp"}),
    "content type a list": element(names=[name(1)], **{"content-type": []}),
    "signed by nobody": element(names=[name(1)], **{"content-type": "application/data"}),
    "encoding unknown": element(names=[name(1)], **{"content-encoding": "rot13"}),
    "encoding zlib": element(names=[name(1)], **{"content-encoding": "zlib"}),
    "body encoding unknown": element(names=[name(1)], properties={"body_encoding": "rot13"}),
    "body encoding none": element(names=[name(1)], properties={"body_encoding": None}),
    "not base64": RAW.replace(b'"body": "', b'"body": "!!!', 1),
    "base64 of other letters": RAW.replace(b'"body": "', '"body": "é'.encode(), 1),
    "body not JSON": element(body=b"\xff\xfe{{{"), "body a number in JSON": element(body=b"5"),
    "body an object in JSON": element(body=b'{"args": [], "kwargs": {}}'),
    "body deep": element(body=b"[" * DEEP + b"]" * DEEP),
    "body of two": element(body=json.dumps([[name(1)], {}]).encode()),
    "body of four": element(body=json.dumps([[name(1)], {}, {}, {}]).encode()),
    "compressed": element(
        body=zlib.compress(b"[" + b"1," * 3_000_000 + b"1]", 9), headers={"compression": "application/x-gzip"}
    ),
    "no name": element(names=[]), "names no list": element(names={"document": name(1)}),
    "two names": element(names=[name(1), name(2)]), "a name of another kind": element(names=[5]),
    "a list for a name": element(names=[[name(1)]]), "an empty name": element(names=[""]),
    "a name in capitals": element(names=[name(10).upper()]), "a name and a line": element(names=[name(1) + "\n"]),
    "a name of other digits": element(names=["١" * 64]),
    "named arguments": element(body=json.dumps([[], {"document": name(1)}, {}]).encode()),
}  # fmt: skip
"""Invalid messages."""


def list_malformed(victim: Path) -> dict[str, bytes]:
    """Return invalid messages, some of which name a file that a worker must not touch."""
    paths = {
        "a path": element(names=[str(victim)], headers={"timelimit": [0.06, 0.05]}),
        "a path upwards": element(names=["../" * 8 + str(victim)]),
    }
    return MALFORMED | paths


FORGED: Final[dict[str, dict[str, Any]]] = {
    "time limits": {"headers": {"timelimit": [0.0001, 0.0001]}},
    "time limits of no kind": {"headers": {"timelimit": "zorbified harp"}},
    "expired": {"headers": {"expires": "2020-01-01T00:00:00"}},
    "expires at no time": {"headers": {"expires": "zorbified harp"}},
    "later": {"headers": {"eta": "9999-12-31T00:00:00"}}, "at no time": {"headers": {"eta": {"zorbified": "harp"}}},
    "retries": {"headers": {"retries": -(10**9)}}, "retries of no kind": {"headers": {"retries": ["zorbified harp"]}},
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
}  # fmt: skip
"""Fields of a message that are ignored: each message is processed like any other."""


def list_unacked() -> dict[str, bytes]:
    """Return invalid values of `unacked`, as if workers had received them and died."""
    return {
        "not JSON": b"zorbified harp", "a number": b"5", "an object": b'{"a": 1, "b": 2, "c": "enrich"}',
        "of two": json.dumps([GOOD, ""]).encode(), "no message": json.dumps([5, "", "enrich"]).encode(),
        "large": json.dumps([{**GOOD, "body": "A" * 5 * MAX_BYTES}, "", "enrich"]).encode(),
        "of no queue": json.dumps([GOOD, "", ["enrich"]]).encode(),
        "of another queue": json.dumps([GOOD, "", "zorbified harp"]).encode(),
        "a path": json.dumps([json.loads(element(names=["/zorbified harp"])), "", "enrich"]).encode(),
    }  # fmt: skip


@dataclass
class Working:
    """A worker, its log and its counters."""

    root: Path
    log: Path
    counted: Path
    client: redis.Redis
    process: subprocess.Popen[bytes]

    def count_dropped(self) -> int:
        registry = CollectorRegistry()
        MultiProcessCollector(registry, path=str(self.counted))
        samples = (sample for metric in registry.collect() for sample in metric.samples)
        return sum(int(sample.value) for sample in samples if sample.name == "helix_messages_dropped_total")

    def list_documents(self) -> set[str]:
        """Return the documents of this worker's tasks."""
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.startswith('{"time"')]
        return {str(entry["document"]) for line in lines if "document" in (entry := json.loads(line))}

    def wait_until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        wait_until(seconds, lambda: condition() or self.process.poll() is not None, self.log)
        assert self.process.poll() is None, self.log.read_text(errors="replace")[-6000:]
        assert condition()

    def push(self, *elements: bytes) -> None:
        self.client.lpush("enrich", *elements)

    def check_works(self, number: int) -> None:
        """Check that a valid message is processed."""
        self.push(element(names=[name(number)]))
        self.wait_until(lambda: name(number) in self.list_documents())

    def check_clean(self) -> None:
        """Check that broker, store and log retain nothing of the messages."""
        self.wait_until(lambda: not any(self.client.exists(key) for key in (*QUEUES, "unacked", "unacked_index")), 20)
        assert not any((self.root / "tries").iterdir())
        assert not any((self.root / "dead").iterdir())
        text = self.log.read_text(errors="replace")
        assert "zorbified" not in text
        assert "Traceback" not in text


@contextmanager
def working(folder: Path, url: str, **environ: str) -> Iterator[Working]:
    root, log, counted = folder / "store", folder / "log", folder / "counted"
    paths.create_folders(root)
    counted.mkdir()
    log.touch()
    client = redis.Redis.from_url(url)
    environ = {
        "PROMETHEUS_MULTIPROC_DIR": str(counted),
        "HELIX_TASK_TIME_LIMIT": "100",
        "HELIX_VISIBILITY_TIMEOUT": "110",  # so that lost messages return within ten seconds
        **environ,
    }
    with worker(root, url, "enrich", log, **environ) as process:
        made = Working(root, log, counted, client, process)
        made.wait_until(lambda: "reconcile begins" in log.read_text(errors="replace"))
        yield made


@pytest.fixture
def broker(redis_url: str) -> Iterator[str]:
    """A Redis that is empty before and after."""
    client = redis.Redis.from_url(redis_url)
    client.flushall()
    yield redis_url
    client.flushall()


def test_invalid_messages_are_dropped_and_the_worker_continues(tmp_path: Path, broker: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    unacked = list_unacked()
    client = redis.Redis.from_url(broker)
    client.hset("unacked", mapping=unacked)
    client.zadd("unacked_index", dict.fromkeys(unacked, 1.0))
    bad = list_malformed(victim)
    alive = tmp_path / "alive"
    with working(tmp_path, broker, HELIX_ALIVE=str(alive)) as made, Celery(broker=broker) as stranger:
        assert stranger.control.ping(timeout=0.5) == []  # control messages are ignored
        stranger.control.broadcast("shutdown")
        assert not made.client.exists("_kombu.binding.celery.pidbox")
        os.utime(alive, (1, 1))
        made.push(*bad.values())
        made.wait_until(lambda: made.count_dropped() >= len(bad) + len(unacked))
        made.check_works(900)
        made.push(*(element(names=[name(i)], **fields) for i, fields in enumerate(FORGED.values(), 1_000)))
        wanted = {name(i) for i, _ in enumerate(FORGED, 1_000)}
        made.wait_until(lambda: wanted <= made.list_documents())
        assert made.count_dropped() == len(bad) + len(unacked)
        made.check_clean()
        made.wait_until(lambda: alive.stat().st_mtime > 1)  # it touches its file again
    assert victim.read_text() == "precious"


@dataclass(frozen=True)
class Signer:
    """A key and its certificate."""

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
            "HELIX_MESSAGE_KEY": str(self.key), "HELIX_MESSAGE_CERTIFICATE": str(self.certificate),
            "HELIX_MESSAGE_CERTIFICATES": str(known),
        }  # fmt: skip


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
    """Send a message with each of these settings, as a process of Helix would; return the errors."""
    command = [sys.executable, "-c", SEND, url, json.dumps(environs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [str(line) for line in json.loads(done.stdout)]


def test_a_worker_with_certificates_processes_signed_messages_only(tmp_path: Path, broker: str) -> None:
    ours, other, stranger = (Signer.make(tmp_path, who) for who in ("ours", "other", "stranger"))
    known = folder_of(tmp_path / "known", ours.certificate, other.certificate)
    everybody = folder_of(tmp_path / "everybody", stranger.certificate, ours.certificate)
    client = redis.Redis.from_url(broker)
    assert not any(send(broker, {}, stranger.environ(everybody), other.environ(known), ours.environ(known)))
    unsigned, strange, good, own = reversed(client.lrange("enrich", 0, -1))
    client.delete("enrich")
    message = json.loads(good)
    signed = base64.b64decode(base64.b64decode(message["body"])).split(b"\0\1")
    changed = [
        [*signed[:4], signed[4].replace(b"2", b"4")],  # changed content under the signature
        [base64.b64encode(b"stranger 5"), *signed[1:]],
        [signed[0], b"", *signed[2:]],
        signed[:3],
        [],
    ]
    bad = [unsigned, strange, *(replace_body(message, parts) for parts in changed)]
    # A signature does not cover the content type: a signed body is read as JSON all the same.
    pickled = replace_body(message, [*signed[:2], b"application/x-python-serialize", b"binary", signed[4]])
    with working(tmp_path, broker, **ours.environ(known)) as made:
        made.push(*bad)
        made.wait_until(lambda: made.count_dropped() == len(bad))
        made.push(pickled, good, own)
        made.wait_until(lambda: {name(2), name(3)} <= made.list_documents())
        made.check_clean()
        assert made.list_documents() == {name(2), name(3)}
        assert made.count_dropped() == len(bad)


def replace_body(message: dict[str, Any], parts: list[bytes]) -> bytes:
    body = base64.b64encode(base64.b64encode(b"\0\1".join(parts))).decode()
    return json.dumps({**message, "body": body}).encode()


def test_unusable_keys_and_certificates_are_reported_before_anything_is_sent(tmp_path: Path) -> None:
    ours, other = (Signer.make(tmp_path, who) for who in ("ours", "other"))
    known = folder_of(tmp_path / "known", ours.certificate)
    mixed = folder_of(tmp_path / "mixed", ours.certificate, ours.key)
    wrong = {
        "are not all given": {"HELIX_MESSAGE_KEY": str(ours.key)},
        "is no folder": ours.environ(tmp_path / "nosuch"),
        "holds nothing else": ours.environ(mixed),
        "No such file": {**ours.environ(known), "HELIX_MESSAGE_KEY": str(tmp_path / "nosuch")},
        "no worker would accept": other.environ(known),
    }
    errors = dict(zip(wrong, send("redis://127.0.0.1:1/0", *wrong.values()), strict=True))
    assert not {words: error for words, error in errors.items() if words not in error}


def spoil(rng: random.Random, raw: bytes) -> bytes:
    """Replace a few bytes of a message, or one value in its JSON."""
    if rng.random() < 0.5:
        data = bytearray(raw)
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        return bytes(data)
    message = json.loads(raw)
    part = rng.choice([message, message["headers"], message["properties"]])
    values = (None, 5, -1e308, True, [], {}, "", MARK, "x" * 9_000, [[[]]], {"a": {"b": 5}}, name(1), "enrich")
    part[rng.choice([*part, "compression", "chord"])] = rng.choice(values)
    return json.dumps(message).encode()


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_thousands_of_random_messages_are_dropped(tmp_path: Path, broker: str) -> None:
    seed = int(os.environ.get("HELIX_SEED", "1"))
    rng = random.Random(seed)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    base = [*list_malformed(victim).values(), *(element(names=[name(1)], **fields) for fields in FORGED.values())]
    with working(tmp_path, broker, HELIX_RECONCILE_INTERVAL="3600") as made:
        for turn in range(100):
            valid = [element(names=[name(rng.randrange(1 << 200))]) for _ in range(150)]
            made.push(*(spoil(rng, raw) for raw in valid), *rng.sample(base, 20), rng.randbytes(rng.randrange(5_000)))
            held = json.dumps([json.loads(valid[0]), "", "enrich"]).encode()
            made.client.hset("unacked", f"tag{turn}", spoil(rng, json.dumps(json.loads(held)[0]).encode()))
            made.client.zadd("unacked_index", {f"tag{turn}": 1.0})
            made.check_works(10_000 + turn)
        assert made.count_dropped() > 5_000
        made.check_clean()
    assert victim.read_text() == "precious"
