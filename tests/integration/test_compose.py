"""docker-compose.yml keeps its promises: commands that exist, a safe Redis, a read-only query process."""

from __future__ import annotations

import ipaddress
import os
import shlex
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT
from workers.app import APART, QUEUES
from workers.messages import KINDS
from workers.run import BEHIND
from workers.supervisor import SERVICES

CHECK = str(Path(sys.executable).with_name("check-jsonschema"))
WORKERS = ("accept", "enrich", "bulk", "commit", "maintain", "expand", "deep")
HELIX = (*WORKERS, "beat", "query")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
    assert "version" not in compose
    return dict(compose["services"])


def words(service: dict[str, Any]) -> list[str]:
    command = service["command"]
    return shlex.split(command) if isinstance(command, str) else [str(word) for word in command]


def value(command: list[str], option: str) -> str:
    return command[command.index(option) + 1]


def test_every_helix_command_is_declared(services: dict[str, Any]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = project["entry-points"]["helix.commands"]
    commands = {name: words(service) for name, service in services.items() if words(service)[0] == "helix"}
    assert set(commands) == set(HELIX)
    for name, command in commands.items():
        assert command[1] in declared, f"{name}: helix {command[1]}"


def test_the_file_is_what_the_compose_specification_allows() -> None:
    done = subprocess.run(
        [CHECK, "--builtin-schema", "vendor.compose-spec", str(ROOT / "docker-compose.yml")], capture_output=True
    )
    assert done.returncode == 0, done.stdout


def test_a_file_that_it_does_not_allow_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "docker-compose.yml"
    broken.write_text((ROOT / "docker-compose.yml").read_text("utf-8").replace("healthcheck:", "healthchecks:", 1))
    done = subprocess.run([CHECK, "--builtin-schema", "vendor.compose-spec", str(broken)], capture_output=True)
    assert done.returncode == 1
    assert b"healthchecks" in done.stdout


def test_up_runs_the_same_services(services: dict[str, Any]) -> None:
    """But for the port its metrics are on, and where the query process listens."""
    for name in HELIX:
        command = words(services[name])[1:]
        if "--metrics-port" in command:
            at = command.index("--metrics-port")
            del command[at : at + 2]
        if name == "query":
            del command[2:]
        assert tuple(command) == SERVICES[name]
    assert set(SERVICES) == set(HELIX)


def test_every_queue_has_a_worker(services: dict[str, Any]) -> None:
    assert {value(words(services[name]), "--queues") for name in WORKERS} == {*QUEUES, *APART}
    assert {queue for kind in KINDS.values() for queue in kind.queues} == {*QUEUES, *APART}


def test_only_the_service_deep_reaches_out_and_only_where_it_is_wanted(services: dict[str, Any]) -> None:
    networks = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["networks"]
    assert networks["queue"]["internal"] is True
    assert {name for name, service in services.items() if "out" in service["networks"]} == {"deep"}
    assert {name for name in (*WORKERS, "beat", "redis") if set(services[name]["networks"]) != {"queue"}} == {"deep"}
    assert services["deep"]["profiles"] == ["deep"]
    assert not [name for name, service in services.items() if "profiles" in service and name != "deep"]


def test_work_nobody_waits_for_leaves_the_cores_to_the_rest(services: dict[str, Any]) -> None:
    assert {name for name, service in services.items() if service.get("cpu_shares", 1_024) < 1_024} == BEHIND


def test_redis_neither_forgets_nor_is_open(services: dict[str, Any]) -> None:
    command = words(services["redis"])
    assert value(command, "--maxmemory-policy") == "noeviction"
    assert value(command, "--appendonly") == "yes"
    assert value(command, "--requirepass").startswith("${HELIX_REDIS_PASSWORD:?")
    assert "ports" not in services["redis"]
    for name in (*WORKERS, "beat"):
        url = services[name]["environment"]["HELIX_REDIS_URL"]
        assert url == "redis://:${HELIX_REDIS_PASSWORD}@redis:6379/0"


def test_workers_share_the_store_and_one_commits(services: dict[str, Any]) -> None:
    for name in (*WORKERS, "beat"):
        assert "store:/store" in services[name]["volumes"]
        assert services[name]["environment"]["HELIX_STORE"] == "/store"
    for name in WORKERS:
        assert value(words(services[name]), "--queues") == name
    assert services["commit"]["deploy"]["replicas"] == 1


def test_query_has_the_store_and_no_queue(services: dict[str, Any]) -> None:
    query = services["query"]
    assert query["volumes"] == [
        "store:/store"
    ]  # to be written: feedback is appended to events/, a reader claims in pins/
    assert "HELIX_REDIS_URL" not in query["environment"]
    assert not set(query["networks"]) & set(services["redis"]["networks"])


def test_query_is_published_on_loopback_only(services: dict[str, Any]) -> None:
    query = services["query"]
    port = value(words(query), "--port")
    for published in query["ports"]:
        host, _, inside = published.rsplit(":", 2)
        assert ipaddress.ip_address(host.strip("[]")).is_loopback
        assert inside == port


def test_no_service_has_more_rights_than_it_needs(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert not service.get("privileged"), name
        assert service.get("network_mode") is None, name
        assert not any("docker.sock" in str(volume) for volume in service["volumes"]), name
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name


def test_every_service_is_watched_bounded_and_restarted(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["healthcheck"]["test"], name
        assert {"cpus", "memory"} <= set(service["deploy"]["resources"]["limits"]), name
        assert service["restart"] == "unless-stopped", name


def test_images_are_stages_that_run_as_an_ordinary_user(services: dict[str, Any]) -> None:
    stages: dict[str, list[str]] = {}
    for line in (ROOT / "Dockerfile").read_text("utf-8").splitlines():
        if line.startswith("FROM "):
            stages[line.split()[-1]] = []
        elif stages:
            stages[list(stages)[-1]].append(line)
    for name in HELIX:
        stage = stages[services[name]["build"]["target"]]
        assert "USER helix" in stage, name
        assert any("--constraint /constraints.txt" in line for line in stage), name


@pytest.mark.parametrize(("age", "status"), [(0, 0), (50, 0), (70, 1)])
def test_a_worker_is_well_as_long_as_it_touches_its_file(
    services: dict[str, Any], tmp_path: Path, age: int, status: int
) -> None:
    named = {services[name]["environment"]["HELIX_ALIVE"] for name in (*WORKERS, "beat")}
    codes = {services[name]["healthcheck"]["test"][3] for name in (*WORKERS, "beat")}
    assert len(named) == len(codes) == 1
    touched = tmp_path / "touched"
    touched.touch()
    os.utime(touched, (time.time() - age,) * 2)
    code = codes.pop().replace(repr(named.pop()), repr(str(touched)))
    assert subprocess.run([sys.executable, "-c", code]).returncode == status


def test_a_health_check_is_python_that_compiles(services: dict[str, Any]) -> None:
    for name in HELIX:
        kind, python, option, code = services[name]["healthcheck"]["test"]
        assert (kind, python, option) == ("CMD", "python", "-c")
        compile(code, name, "exec")
