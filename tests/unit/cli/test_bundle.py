"""What may not leave with a support bundle."""

from typing import Any

import pytest

from leveret.cli.bundle import without_secrets


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("amqp://u:p@host/v", "amqp://u:***@host/v"),
        ("amqp://u:p@ss@host", "amqp://u:***@host"),
        ("amqp://u:p@one,amqps://v:q@two", "amqp://u:***@one,amqps://v:***@two"),
        ("amqp://host", "amqp://host"),
        # Rather too much than too little.
        ("https://host:15671/a@b", "https://host:***@b"),
        (
            "amqps://host?cacertfile=/ca.pem&password=p&verify=none",
            "amqps://host?cacertfile=/ca.pem&password=***&verify=none",
        ),
        ({"password_hash": "x", "name": "ann"}, {"password_hash": "***", "name": "ann"}),
        ({"password_hash": ""}, {"password_hash": ""}),
        ([{"value": {"src-uri": ["amqp://u:p@h"]}}], [{"value": {"src-uri": ["amqp://u:***@h"]}}]),
        ({"client_properties": {"product": "p", "key": "k"}}, {"client_properties": {"product": "p"}}),
        ({"clientSecret": "s", "n": 1, "none": None}, {"clientSecret": "***", "n": 1, "none": None}),
    ],
)
def test_secrets_are_hidden(given: Any, kept: Any) -> None:
    assert without_secrets(given) == kept
