"""docs/kubernetes: valid manifests, few rights, and commands and probes that work when they are run."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from helix.cli.main import main
from helix.settings import Settings
from helix.snapshot.ledger import inbox
from query.auth import create_key
from tests.support.fleet import FAST
from tests.support.paths import ROOT
from tests.support.processes import HELIX, can_connect, pick_port, wait_until
from workers.queues import DEEP, QUEUES

FOLDER = ROOT / "docs" / "kubernetes"
VERSION = "1.37"
PASSWORD = "ab12" * 6
LIBRARY = "kustomization.yaml"


def read_all() -> list[dict[str, Any]]:
    files = [path for path in sorted(FOLDER.glob("*.yaml")) if path.name != LIBRARY]
    return [made for path in files for made in yaml.safe_load_all(path.read_text("utf-8"))]


def list_pods() -> dict[str, dict[str, Any]]:
    """Return the pod of each Deployment and StatefulSet, by name."""
    workloads = [made for made in read_all() if made["kind"] in ("Deployment", "StatefulSet")]
    return {made["metadata"]["name"]: made["spec"]["template"]["spec"] for made in workloads}


def read_container(pod: Mapping[str, Any]) -> dict[str, Any]:
    (container,) = pod["containers"]
    return dict(container)


def read_environ(container: Mapping[str, Any]) -> dict[str, str]:
    """Return a container's environment, with the secret, and with references replaced as Kubernetes does."""
    (config,) = [made for made in read_all() if made["kind"] == "ConfigMap"]
    environ = dict(config["data"]) if container.get("envFrom") else {}
    for entry in container.get("env", ()):
        environ[entry["name"]] = _expand(entry.get("value", PASSWORD), environ)
    return environ


def _expand(text: str, environ: Mapping[str, str]) -> str:
    return re.sub(r"\$\((\w+)\)", lambda found: environ[found[1]], text)


# ---------------------------------------------------------------- files


def test_every_manifest_matches_the_schema_of_kubernetes() -> None:
    for made in read_all():
        kubernetes_validate.validate(made, VERSION, strict=True)


@pytest.mark.parametrize("path", ["spec.replicas", "spec.template.spec.containers.0.livenessProb", "spec.selector"])
def test_a_wrong_manifest_does_not(path: str) -> None:
    made = copy.deepcopy(next(made for made in read_all() if made["kind"] == "Deployment"))
    inner: Any = made
    *folders, last = path.split(".")
    for name in folders:
        inner = inner[int(name) if name.isdigit() else name]
    inner[last] = "wrong"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(made, VERSION, strict=True)


def test_kustomize_applies_every_file_and_each_image_is_built_here() -> None:
    library = yaml.safe_load((FOLDER / LIBRARY).read_text("utf-8"))
    assert sorted(library["resources"]) == sorted(path.name for path in FOLDER.glob("*.yaml") if path.name != LIBRARY)
    images = {read_container(pod)["image"] for pod in list_pods().values()}
    assert {image["name"] for image in library["images"]} == images - {"redis:7.2-alpine"}
    assert {made["metadata"]["namespace"] for made in read_all() if made["kind"] != "Namespace"} == {"helix"}


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
def test_kustomize_builds_all_of_it_with_the_names_of_your_images() -> None:
    built = subprocess.run(["kubectl", "kustomize", str(FOLDER)], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    made = list(yaml.safe_load_all(built.stdout))
    named = {(one["kind"], one["metadata"]["name"]) for one in made}
    assert named == {(one["kind"], one["metadata"]["name"]) for one in read_all()}
    for one in made:
        kubernetes_validate.validate(one, VERSION, strict=True)
    images = {read_container(one["spec"]["template"]["spec"])["image"] for one in made if one["kind"] == "Deployment"}
    assert images == {f"registry.example.com/helix-{name}:0.1.0" for name in ("worker", "query")}


def test_every_pod_has_few_rights_probes_and_limits() -> None:
    for name, pod in list_pods().items():
        container = read_container(pod)
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert pod["automountServiceAccountToken"] is False, name
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }, name  # fmt: skip
        assert {"livenessProbe", "resources"} <= set(container), name
        assert container["resources"]["limits"]["memory"], name
        assert container["resources"]["requests"]["cpu"], name
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert "/tmp" in mounts or name == "redis", name


def test_the_secret_is_a_reference_and_every_variable_is_a_setting() -> None:
    assert not [made for made in read_all() if made["kind"] == "Secret"]
    settings = {f"HELIX_{setting.name.upper()}" for setting in fields(Settings)}
    for name, pod in list_pods().items():
        for variable in read_environ(read_container(pod)):
            assert variable in settings | {"HELIX_REDIS_PASSWORD", "REDISCLI_AUTH", "HF_HOME"}, (name, variable)


def test_every_queue_has_a_worker_and_no_import_runs_where_fresh_turns_do() -> None:
    queues = {
        name: read_container(pod)["command"][3].split(",")
        for name, pod in list_pods().items()
        if "--queues" in read_container(pod)["command"]
    }
    assert sorted(queue for names in queues.values() for queue in names) == sorted(QUEUES)  # not DEEP: of one store
    assert DEEP not in QUEUES
    assert set(queues["fresh"]) == {"enrich", "commit"}
    (beat,) = [made for made in read_all() if made["metadata"]["name"] == "beat"]
    assert (beat["spec"]["replicas"], beat["spec"]["strategy"]["type"]) == (1, "Recreate")


def test_policies_let_workers_reach_redis_and_query_nothing() -> None:
    policies = {made["metadata"]["name"]: made["spec"] for made in read_all() if made["kind"] == "NetworkPolicy"}
    assert policies["nothing"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert "egress" not in policies["query"]
    assert "Egress" in policies["query"]["policyTypes"]
    (source,) = policies["redis"]["ingress"][0]["from"]
    assert source == {"podSelector": {"matchLabels": {"tier": "workers"}}}


# ---------------------------------------------------------------- commands


class Cluster:
    """The pods as processes of this machine: their commands, environment and probes, with other paths and ports."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self.redis_port = folder, folder / "log", pick_port()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.ports: dict[str, int] = {}
        for name in ("stores", "cache", "tmp"):
            (folder / name).mkdir()

    def start(self, name: str, pod: Mapping[str, Any]) -> None:
        container = read_container(pod)
        environ = {key: self.localise(name, text) for key, text in read_environ(container).items()}
        words = [self.localise(name, _expand(word, environ)) for word in container["command"]]
        if words[0] == "redis-server":
            words += ["--port", str(self.redis_port), "--dir", str(self.folder), "--bind", "127.0.0.1"]
        else:
            assert words[0] == "helix"
            words = [*HELIX, *words[1:]]
        for option in ("--port", "--metrics-port"):
            if option in words and name != "redis":
                self.ports[name] = pick_port()
                words[words.index(option) + 1] = str(self.ports[name])
        usual = {key: text for key, text in os.environ.items() if not key.startswith("HELIX_")}
        cache = {"HELIX_CACHE": os.environ["HELIX_CACHE"]} if "HELIX_CACHE" in os.environ else {}
        with self.log.open("ab") as output:
            self.running[name] = subprocess.Popen(
                words, env={**usual, **FAST, **environ, **cache}, stdout=output, stderr=output, start_new_session=True
            )

    def localise(self, name: str, text: str) -> str:
        """Replace the paths and the address of a container by those of this machine."""
        text = text.replace("@redis:6379", f"@127.0.0.1:{self.redis_port}")
        text = re.sub(r"^/(stores|cache)\b", lambda found: str(self.folder / found[1]), text)
        return text.replace("/tmp/alive", str(self.folder / "tmp" / f"alive-{name}"))

    def probe(self, name: str, probe: Mapping[str, Any]) -> bool:
        """Run a probe once, as the kubelet does."""
        if "exec" in probe:
            words = [self.localise(name, word) for word in probe["exec"]["command"]]
            here = [sys.executable] if words[0] == "python" else [words[0], "-p", str(self.redis_port)]
            environ = {**os.environ, "REDISCLI_AUTH": PASSWORD}
            return subprocess.run([*here, *words[1:]], env=environ, capture_output=True).returncode == 0
        try:
            url = f"http://127.0.0.1:{self.ports[name]}{probe['httpGet']['path']}"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def read_log(self) -> str:
        return self.log.read_text(errors="replace")

    def close(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture
def cluster(tmp_path: Path, cache: Path) -> Iterator[Cluster]:
    if not shutil.which("redis-server") or not shutil.which("redis-cli"):
        pytest.skip("redis-server is not installed: run `make redis`")
    made = Cluster(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.usefixtures("processes")
def test_the_commands_run_and_their_probes_answer(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pods = list_pods()
    assert set(pods) == {"redis", "fresh", "imports", "maintain", "beat", "query"}
    for name in pods:
        cluster.start(name, pods[name])
        if name == "redis":
            wait_until(60, lambda: can_connect(cluster.redis_port), cluster.log)
    for name, pod in pods.items():
        probe = read_container(pod).get("startupProbe", read_container(pod)["livenessProbe"])
        wait_until(90, lambda name=name, probe=probe: cluster.probe(name, probe), cluster.log)
    readiness = read_container(pods["query"])["readinessProbe"]
    assert cluster.probe("query", readiness)  # stores come later
    store = cluster.folder / "stores" / "main"
    (tmp_path / "log.jsonl").write_text('{"session": "s", "text": "we chose parsley"}\n')
    environ = {key: cluster.localise("here", text) for key, text in read_environ(read_container(pods["fresh"])).items()}
    for key, text in environ.items():
        if key in ("HELIX_STORES", "HELIX_REDIS_URL"):
            monkeypatch.setenv(key, text)
    words = ("enqueue", str(tmp_path / "log.jsonl"), "--store", str(store), "--json")
    sent = subprocess.run([*HELIX, *words], capture_output=True, text=True)
    assert (sent.returncode, json.loads(sent.stdout)["queued"]) == (0, 1), sent.stderr
    wait_until(60, lambda: not inbox.list_pending(store) and inbox.list_accepted(store), cluster.log)
    key, _ = create_key(cluster.folder / "stores" / "keys.json", "ana", grants={"main": ["recall"]})
    url = f"http://127.0.0.1:{cluster.ports['query']}/stores/main/v1/recall?query=what+did+we+choose"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert [item["text"] for item in json.load(answer)["items"]] == ["we chose parsley"]
    for name, pod in pods.items():
        for kind in ("livenessProbe", "readinessProbe"):
            if probe := read_container(pod).get(kind):
                wait_until(90, lambda name=name, probe=probe: cluster.probe(name, probe), cluster.log)
    with urllib.request.urlopen(f"http://127.0.0.1:{cluster.ports['fresh']}/metrics", timeout=20) as answer:
        metrics = answer.read().decode()
    assert 'helix_store_documents{state="waiting",store="main"} 0.0' in metrics
    assert main(["status", "--stores", environ["HELIX_STORES"]]) == 0
    assert "main" in capsys.readouterr().out
    assert all(process.poll() is None for process in cluster.running.values())
