"""Declarations: types in words, and defaults that are those of the rooms that use them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import pytest

from leveret.catalog.arguments import DURATION_MS_MAX
from leveret.management import services
from leveret.management.http import connection_limits as guard
from leveret.management.http.places import CONNECTIONS_PER_ADDRESS_MAX
from leveret.management.services import LARGE_BODY_BYTES_MAX, SMALL_BODY_BYTES_MAX
from leveret.node.config.declaring import PortOrOff, declarations, kind_text, section_names
from leveret.node.config.network import ACK_TIMEOUT_MS_MAX
from leveret.node.config.settings import Settings
from leveret.runtime.secret import Secret
from leveret.session.ack_timeouts import ACTIONS
from leveret.session.settings import SessionSettings
from leveret.storage.store import SEGMENT_BYTES
from leveret.wire import limits


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (int, "a whole number"),
        (Annotated[int, msgspec.Meta(ge=1, le=2)], "a whole number from 1 to 2"),
        (Annotated[float, msgspec.Meta(ge=0.05, le=1e6)], "a number from 0.05 to 1000000"),
        (bool, "true or false"),
        (str, "text"),
        (Secret, "text"),
        (PortOrOff, 'a whole number from 0 to 65535 or "off"'),
        (Literal["a", "b"], "one of a, b"),
        (tuple[str, ...], "a list of texts"),
        (tuple[Literal["a", "b"], ...], "a list of one of a, b"),
        (dict[str, str], "a table of texts"),
    ],
)
def test_types_are_said_in_words(kind: object, text: str) -> None:
    assert kind_text(kind) == text


def test_defaults_are_those_of_the_rooms_that_use_them() -> None:
    """They are written out in node/config, so that small commands start without those rooms."""
    settings = Settings()
    for name in ("frame_max", "channel_max", "heartbeat_s", "body_bytes_max", "handshake_deadline_s"):
        assert getattr(settings.limits, name) == getattr(limits, name.upper()), name
    for name in ("ack_timeout_ms", "ack_timeout_action"):
        assert getattr(settings.limits, name) == getattr(SessionSettings(), name), name
    assert kind_text(declarations()["limits.ack_timeout_action"].kind) == f"one of {', '.join(ACTIONS)}"
    assert settings.storage.segment_bytes == SEGMENT_BYTES
    assert ACK_TIMEOUT_MS_MAX == DURATION_MS_MAX
    assert settings.management.body_bytes_max == LARGE_BODY_BYTES_MAX
    assert settings.management.small_body_bytes_max == SMALL_BODY_BYTES_MAX
    assert settings.management.bodies_bytes_max == services.BODIES_BYTES_MAX
    assert settings.management.answers_bytes_max == services.ANSWERS_BYTES_MAX
    assert settings.management.write_deadline_s == services.WRITE_DEADLINE_S
    assert settings.management.header_deadline_s == guard.HEADER_DEADLINE_S
    assert settings.management.connections_per_address_max == CONNECTIONS_PER_ADDRESS_MAX


def test_every_default_is_a_value_that_would_be_taken() -> None:
    for key, declaration in declarations().items():
        if not declaration.secret:
            default = msgspec.to_builtins(declaration.default)
            assert msgspec.convert(default, declaration.kind) == declaration.default, key


def test_flags_are_unique_and_names_fit_the_environment() -> None:
    flags = [each.flag for each in declarations().values() if each.flag]
    assert len(flags) == len(set(flags)) >= 8
    assert all(key.isascii() and key == key.lower() and "__" not in key for key in declarations())
    assert declarations()["auth.tokens.leeway_s"].variable == "LEVERET__AUTH__TOKENS__LEEWAY_S"
    assert list(section_names())[:3] == ["", "listen", "tls"]


def test_what_is_chosen_when_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/x")
    assert Settings().chosen_data_dir == "/x/leveret"
    assert Settings().chosen_socket == "/x/leveret/leveret.sock"
    assert Settings(data_dir="/d").chosen_socket == "/d/leveret.sock"
    assert Settings(node_name="a@b").chosen_node_name == "a@b"
    name, _, host = Settings().chosen_node_name.partition("@")
    assert name == "leveret" and host and "." not in host
