"""Passwords of links on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leveret.broker.sealing import Sealer
from leveret.catalog import commands
from leveret.catalog.records import Parameter
from leveret.errors import InvalidRequest

URI = "amqp://u:canary@h/v"
SHOVEL = Parameter("/", "shovel", "s", {"src-uri": ["amqp://", URI], "src-queue": "a", "dest-uri": URI})


def sealed_value(sealer: Sealer, parameter: Parameter = SHOVEL) -> dict[str, object]:
    command = sealer.seal(commands.PutParameter(parameter))
    assert isinstance(command, commands.PutParameter)
    value: dict[str, object] = command.parameter.value
    return value


def test_uris_with_a_password_are_sealed_and_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "links.key"
    value = sealed_value(Sealer(path, os.urandom))
    assert "canary" not in str(value)
    assert isinstance(value["src-uri"], list)
    assert (value["src-uri"][0], value["src-queue"]) == ("amqp://", "a")
    assert path.stat().st_mode & 0o777 == 0o600
    together = commands.Together((commands.PutParameter(Parameter("/", "shovel", "s", value)),))
    # Another start reads the key.
    assert Sealer(path, os.urandom).open(together) == commands.Together((commands.PutParameter(SHOVEL),))


def test_nothing_is_made_of_what_has_no_password(tmp_path: Path) -> None:
    path = tmp_path / "links.key"
    plain = Parameter("/", "federation-upstream", "u", {"uri": "amqp://h"})
    assert Sealer(path, os.urandom).seal(commands.PutParameter(plain)) == commands.PutParameter(plain)
    assert not path.exists()


def test_a_sealed_uri_is_of_no_use_elsewhere_or_without_its_key(tmp_path: Path) -> None:
    path = tmp_path / "links.key"
    value = sealed_value(Sealer(path, os.urandom))
    moved = commands.PutParameter(Parameter("/", "shovel", "other", value))
    assert Sealer(path, os.urandom).open(moved) == moved
    path.write_bytes(os.urandom(32))
    command = commands.PutParameter(Parameter("/", "shovel", "s", value))
    assert Sealer(path, os.urandom).open(command) == command
    path.unlink()
    assert Sealer(path, os.urandom).open(command) == command
    # What could not be opened is not sealed twice.
    assert Sealer(path, os.urandom).seal(command) == command


def test_without_a_key_nothing_is_written_in_the_clear(tmp_path: Path) -> None:
    (tmp_path / "links.key").write_bytes(b"short")
    with pytest.raises(InvalidRequest, match="cannot be read"):
        sealed_value(Sealer(tmp_path / "links.key", os.urandom))
    with pytest.raises(InvalidRequest, match="cannot be written"):
        sealed_value(Sealer(tmp_path / "nowhere" / "links.key", os.urandom))
