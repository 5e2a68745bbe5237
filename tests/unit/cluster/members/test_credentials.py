"""Credentials on disk: complete or not at all, and each fault with what to do."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from leveret.cluster.links.address import Address
from leveret.cluster.members.authority import TOKENS_MAX, Authority, init_cluster
from leveret.cluster.members.credentials import Files, load_credentials, read_identity
from leveret.errors import ClusterError, StartupError
from leveret.runtime.dice import Dice
from leveret.runtime.files import locked

NOW = time.time()
SALT = Dice().salt


@pytest.fixture
def files(tmp_path: Path) -> Files:
    made = Files.of(tmp_path)
    init_cluster(made, "farm", "hare", Address("10.0.0.1", 25672), SALT, NOW)
    return made


def test_init_makes_everything_for_its_owner_alone(files: Files) -> None:
    credentials = load_credentials(files)
    assert (credentials.identity.node, credentials.identity.node_name) == (1, "hare")
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in files.directory.iterdir())
    assert files.directory.stat().st_mode & 0o777 == 0o700
    with pytest.raises(ClusterError, match="already"):
        init_cluster(files, "farm", "hare", Address("10.0.0.1", 1), SALT, NOW)


def test_each_life_is_later_than_all_before(files: Files) -> None:
    credentials = load_credentials(files)
    first = credentials.in_this_life(1000).incarnation
    # The clock has gone back.
    second = credentials.in_this_life(10).incarnation
    assert (first, second) == (1000, 1001)
    # The disk has.
    files.incarnation.write_text("1\n")
    assert credentials.in_this_life(2000).incarnation == 2000
    files.incarnation.write_text("x")
    with pytest.raises(StartupError, match="remove it"):
        credentials.in_this_life(1)


def test_what_is_missing_or_wrong_is_named(files: Files, tmp_path: Path) -> None:
    assert read_identity(Files.of(tmp_path / "empty")) is None
    with pytest.raises(StartupError, match="leveret cluster init"):
        load_credentials(Files.of(tmp_path / "empty"))
    other = Files.of(tmp_path / "other")
    init_cluster(other, "farm", "hare", Address("10.0.0.1", 25672), SALT, NOW)
    good = files.key.read_bytes()
    files.key.write_bytes(other.key.read_bytes())
    with pytest.raises(StartupError, match="do not fit"):
        load_credentials(files)
    files.key.write_bytes(b"no key")
    with pytest.raises(StartupError, match="cannot be read"):
        load_credentials(files)
    files.key.write_bytes(good)
    text = files.identity.read_text()
    files.identity.write_text(text.replace('"node": 1', '"node": 2'))
    with pytest.raises(StartupError, match="do not fit"):
        load_credentials(files)
    for damaged in ("", "{}", text.replace('"node": 1', '"node": 0'), text.replace('"hare"', '""')):
        files.identity.write_text(damaged)
        with pytest.raises(StartupError, match=r"identity\.json"):
            load_credentials(files)


def test_open_tokens_are_bounded_and_end(files: Files) -> None:
    authority, here = Authority(files), Address("10.0.0.1", 25672)
    assert not authority.is_open(NOW)
    for _ in range(TOKENS_MAX):
        authority.make_token(here, SALT, NOW, life_s=60)
    with pytest.raises(ClusterError, match="are open"):
        authority.make_token(here, SALT, NOW)
    assert authority.is_open(NOW + 59) and not authority.is_open(NOW + 61)
    authority.make_token(here, SALT, NOW + 61)
    assert authority.revoke_tokens(NOW + 61) == 1 and not authority.is_open(NOW + 61)


def test_the_book_has_one_writer_at_a_time(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.cluster.members.authority.LOCK_DEADLINE_S", 0.05)
    with locked(files.authority_lock, 1), pytest.raises(ClusterError, match="another process"):
        Authority(files).make_token(Address("10.0.0.1", 1), SALT, NOW)
    Authority(files).make_token(Address("10.0.0.1", 1), SALT, NOW)


def test_only_one_node_has_the_authority(files: Files) -> None:
    files.authority_key.unlink()
    with pytest.raises(StartupError, match="does not have the authority"):
        Authority(files)


def test_a_damaged_book_lets_nobody_join(files: Files) -> None:
    authority = Authority(files)
    authority.make_token(Address("10.0.0.1", 1), SALT, NOW)
    files.authority_book.write_text("{")
    assert not authority.is_open(NOW)
    with pytest.raises(StartupError, match="backup"):
        authority.make_token(Address("10.0.0.1", 1), SALT, NOW)
