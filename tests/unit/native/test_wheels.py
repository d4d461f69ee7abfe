"""The build matrix of the wheels: valid by the schema of its service, and as the project's own configuration has it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

from tests.support.paths import ROOT

WORKFLOW = ROOT / ".github" / "workflows" / "wheels.yml"


def test_the_workflow_is_valid_and_covers_every_platform() -> None:
    check = [str(Path(sys.executable).with_name("check-jsonschema")), "--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run([*check, str(WORKFLOW)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    jobs = yaml.safe_load(WORKFLOW.read_text())["jobs"]
    runners = jobs["compiled"]["strategy"]["matrix"]["runner"]
    assert {name.partition("-")[0] for name in runners} == {"ubuntu", "macos"}
    assert len(runners) == 4  # two processors each
    assert any(step.get("env") == {"HELIX_NO_KERNELS": "1"} for step in jobs["reference"]["steps"])


def test_the_wheels_are_tried_by_their_commands() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    code, commands = settings["test-command"]
    statement = code.partition('-c "')[2].rstrip('"')
    without = {name: value for name, value in os.environ.items() if name != "HELIX_KERNELS"}  # the wheel chooses
    subprocess.run([sys.executable, "-c", statement], env=without, check=True)
    assert "helix ingest {project}/helix/sample" in commands
    assert "helix recall vacation" in commands
