"""Credentials for an S3 server: the environment first, then a profile of ~/.aws."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from helix.errors import UsageError
from helix.snapshot.replication import s3

CREDENTIALS = "[default]\naws_access_key_id = A\naws_secret_access_key = a/%b\n[own]\naws_session_token = T\n"
CONFIG = "[profile own]\naws_access_key_id = B\naws_secret_access_key = b\n[profile sso]\nsso_session = x\n"


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment with a home that has both files."""
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(CREDENTIALS)
    (tmp_path / ".aws" / "config").write_text(CONFIG)
    return {"HOME": str(tmp_path)}


def test_keys_come_from_the_environment_or_a_profile(home: dict[str, str], tmp_path: Path) -> None:
    assert s3.find_credentials(home) == ({"access_key_id": "A", "secret_access_key": "a/%b"}, None)
    own = {"access_key_id": "B", "secret_access_key": "b", "token": "T"}
    assert s3.find_credentials({**home, "AWS_PROFILE": "own"}) == (own, None)
    assert s3.find_credentials({**home, "AWS_ACCESS_KEY_ID": "E"}) == ({}, None)  # obstore reads those itself
    assert s3.find_credentials({**home, "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://x"}) == ({}, None)
    assert s3.find_credentials({"HOME": str(tmp_path / "nowhere")}) == ({}, None)
    (tmp_path / "broken").write_text("no section")
    broken = {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "broken"), "AWS_CONFIG_FILE": str(tmp_path)}
    assert s3.find_credentials({**home, **broken}) == ({}, None)


def test_a_profile_with_a_login_takes_boto3(home: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.auth.boto3", None)
    with pytest.raises(UsageError, match="export-credentials"):
        s3.find_credentials({**home, "AWS_PROFILE": "sso"})


def test_without_obstore_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    s3._open_bucket.cache_clear()
    with pytest.raises(UsageError, match=r"helix-recall\[s3\]"):
        s3.open_bucket("memories", "one", "http://127.0.0.1:1", None)
