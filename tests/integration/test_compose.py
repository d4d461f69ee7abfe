"""docker-compose.yml: existing commands, a safe Redis, few rights, and health checks."""

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
from workers.cli.up import SERVICES
from workers.queues import ALL_QUEUES, BACKGROUND, ROUTES

WORKERS = ALL_QUEUES
HELIX = (*WORKERS, "beat", "query")
FILE = ROOT / "docker-compose.yml"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    compose = yaml.safe_load(FILE.read_text("utf-8"))
    assert "version" not in compose
    return dict(compose["services"])


def split_command(service: dict[str, Any]) -> list[str]:
    command = service["command"]
    return shlex.split(command) if isinstance(command, str) else [str(word) for word in command]


def read_option(command: list[str], option: str) -> str:
    return command[command.index(option) + 1]


def test_the_file_matches_the_compose_specification(tmp_path: Path) -> None:
    check = [str(Path(sys.executable).with_name("check-jsonschema")), "--builtin-schema", "vendor.compose-spec"]
    broken = tmp_path / "docker-compose.yml"
    broken.write_text(FILE.read_text("utf-8").replace("healthcheck:", "healthchecks:", 1))
    done = subprocess.run([*check, str(FILE)], capture_output=True)
    assert done.returncode == 0, done.stdout
    done = subprocess.run([*check, str(broken)], capture_output=True)
    assert (done.returncode, b"healthchecks" in done.stdout) == (1, True)


def test_up_runs_the_same_services_with_declared_commands(services: dict[str, Any]) -> None:
    """Only the metrics port and the address of the query process differ."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]["helix.commands"]
    commands = {name: split_command(service) for name, service in services.items()}
    assert {name for name, command in commands.items() if command[0] == "helix"} == set(HELIX) == set(SERVICES)
    for name in HELIX:
        command = commands[name][1:]
        assert command[0] in declared
        if "--metrics-port" in command:
            at = command.index("--metrics-port")
            del command[at : at + 2]
        if name == "query":
            del command[2:]
        assert tuple(command) == SERVICES[name]


def test_every_queue_has_a_worker(services: dict[str, Any]) -> None:
    assert {read_option(split_command(services[name]), "--queues") for name in WORKERS} == {*ALL_QUEUES}
    assert {queue for route in ROUTES.values() for queue in route.queues} == {*ALL_QUEUES}


def test_only_the_optional_service_deep_has_a_network_to_the_outside(services: dict[str, Any]) -> None:
    networks = yaml.safe_load(FILE.read_text("utf-8"))["networks"]
    assert networks["queue"]["internal"] is True
    assert {name for name, service in services.items() if "out" in service["networks"]} == {"deep"}
    assert {name for name in (*WORKERS, "beat", "redis") if set(services[name]["networks"]) != {"queue"}} == {"deep"}
    assert services["deep"]["profiles"] == ["deep"]
    assert not [name for name, service in services.items() if "profiles" in service and name != "deep"]


def test_background_services_have_a_small_share_of_the_cores(services: dict[str, Any]) -> None:
    assert {name for name, service in services.items() if service.get("cpu_shares", 1_024) < 1_024} == BACKGROUND


def test_redis_is_durable_and_closed(services: dict[str, Any]) -> None:
    command = split_command(services["redis"])
    assert read_option(command, "--maxmemory-policy") == "noeviction"
    assert read_option(command, "--appendonly") == "yes"
    assert read_option(command, "--requirepass").startswith("${HELIX_REDIS_PASSWORD:?")
    assert "ports" not in services["redis"]
    for name in (*WORKERS, "beat"):
        url = services[name]["environment"]["HELIX_REDIS_URL"]
        assert url == "redis://:${HELIX_REDIS_PASSWORD}@redis:6379/0"


def test_workers_share_the_store_and_one_commits(services: dict[str, Any]) -> None:
    for name in (*WORKERS, "beat"):
        assert "store:/store" in services[name]["volumes"]
        assert services[name]["environment"]["HELIX_STORE"] == "/store"
    for name in WORKERS:
        assert read_option(split_command(services[name]), "--queues") == name
    assert services["commit"]["deploy"]["replicas"] == 1


def test_query_has_the_store_no_queue_and_a_port_on_loopback(services: dict[str, Any]) -> None:
    query = services["query"]
    assert query["volumes"] == ["store:/store"]  # writable: it appends feedback to events/ and claims in pins/
    assert "HELIX_REDIS_URL" not in query["environment"]
    assert not set(query["networks"]) & set(services["redis"]["networks"])
    for published in query["ports"]:
        host, _, inside = published.rsplit(":", 2)
        assert ipaddress.ip_address(host.strip("[]")).is_loopback
        assert inside == read_option(split_command(query), "--port")


def test_every_service_has_few_rights_a_health_check_limits_and_restarts(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert not service.get("privileged"), name
        assert service.get("network_mode") is None, name
        assert not any("docker.sock" in str(volume) for volume in service["volumes"]), name
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
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


def test_a_worker_is_healthy_while_it_touches_its_file(services: dict[str, Any], tmp_path: Path) -> None:
    (path,) = {services[name]["environment"]["HELIX_ALIVE"] for name in (*WORKERS, "beat")}
    (code,) = {services[name]["healthcheck"]["test"][3] for name in (*WORKERS, "beat")}
    touched = tmp_path / "touched"
    touched.touch()
    for age, status in ((0, 0), (50, 0), (70, 1)):
        os.utime(touched, (time.time() - age,) * 2)
        command = [sys.executable, "-c", code.replace(repr(path), repr(str(touched)))]
        assert subprocess.run(command).returncode == status, age


def test_a_health_check_is_python_that_compiles(services: dict[str, Any]) -> None:
    for name in HELIX:
        *command, code = services[name]["healthcheck"]["test"]
        assert command == ["CMD", "python", "-c"]
        compile(code, name, "exec")
