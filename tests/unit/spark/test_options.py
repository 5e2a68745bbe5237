"""Options of the connector: what they may be, and what is said when they are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from leveret.spark.broker_client import Broker
from leveret.spark.errors import InvalidOption
from leveret.spark.options import ANY, READ, SPECS, WRITE, find_password, read_options

CANARY = "c4nary-pa55word"


def test_defaults() -> None:
    read = read_options({}, READ)
    assert (read["url"], read["failOnDataLoss"], read["retryTimeout"]) == ("amqp://127.0.0.1:5672/", True, 60.0)
    assert "exchange" not in read
    assert read_options({}, WRITE)["mandatory"] is True


def test_names_are_not_case_sensitive_and_sparks_own_are_left_out() -> None:
    given = {"STARTINGOFFSETS": "earliest", "path": "orders", "checkpointLocation": "/tmp/c", "queryname": "q"}
    found = read_options(given, READ)
    assert (found["startingOffsets"], found["stream"]) == ("earliest", ("orders",))
    assert read_options({"path": "orders", "stream": "a, b,"}, READ)["stream"] == ("a", "b")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("maxTriggerDelay", "500ms", 0.5),
        ("maxTriggerDelay", "2 minutes", 120.0),
        ("maxTriggerDelay", " 1.5h ", 5400.0),
        ("maxTriggerDelay", "1 day", 86400.0),
        ("failOnDataLoss", "FALSE", False),
        ("maxOffsetsPerTrigger", "10", 10),
        ("auth", "external", "external"),
        ("columns", "body,offset", ("body", "offset")),
    ],
)
def test_values(name: str, text: str, value: Any) -> None:
    assert read_options({name.lower(): text}, READ)[name] == value


@pytest.mark.parametrize(
    ("side", "name", "text"),
    [
        (READ, "maxOffsetsPerTrigger", "0"),
        (READ, "maxOffsetsPerTrigger", "many"),
        (READ, "minPartitions", "-1"),
        (READ, "maxTriggerDelay", "soon"),
        (READ, "maxTriggerDelay", "5"),
        (READ, "failOnDataLoss", "maybe"),
        (READ, "streamPattern", "["),
        (READ, "stream", " , "),
        (READ, "groupName", "x" * 256),
        (READ, "auth", "none"),
        (WRITE, "priority", "256"),
        (WRITE, "badRows", "ignore"),
        (WRITE, "writeId", "x" * 201),
        (WRITE, "confirmTimeout", ""),
    ],
)
def test_a_wrong_value_is_named_with_what_it_may_be(side: str, name: str, text: str) -> None:
    (spec,) = [spec for spec in SPECS if spec.name == name]
    with pytest.raises(InvalidOption) as raised:
        read_options({name: text}, side)
    assert str(raised.value) == f"the option {name} is {text!r}; it must be {spec.allowed}"


def test_an_option_that_nobody_knows() -> None:
    with pytest.raises(
        InvalidOption, match=r"there is no option 'maxOffsetPerTrigger'; there are .*maxOffsetsPerTrigger"
    ):
        read_options({"maxOffsetPerTrigger": "5"}, READ)
    with pytest.raises(InvalidOption, match="the option 'routingKey' is for writing alone"):
        read_options({"routingKey": "k"}, READ)
    with pytest.raises(InvalidOption, match="the option 'stream' is for reading alone"):
        read_options({"stream": "s"}, WRITE)


def test_every_option_is_described() -> None:
    for spec in SPECS:
        assert spec.side in (ANY, READ, WRITE)
        assert spec.what
        assert spec.allowed
    names = [spec.name.lower() for spec in SPECS]
    assert len(set(names)) == len(names)


class TestPasswords:
    def test_ways(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file = tmp_path / "password"
        file.write_text(f"{CANARY}\n")
        monkeypatch.setenv("BROKER_PASSWORD", CANARY)
        for given in ({"password": CANARY}, {"passwordFile": str(file)}, {"passwordEnv": "BROKER_PASSWORD"}):
            options = read_options({**given, "user": "ann"}, READ)
            assert find_password(options) == CANARY
            broker = Broker(options, "test")
            assert (broker.user, broker.password) == ("ann", CANARY)
            assert CANARY not in repr(broker)
            assert CANARY not in str(broker)
        assert find_password(read_options({}, READ)) is None

    @pytest.mark.parametrize(
        ("given", "why"),
        [
            ({"password": CANARY, "passwordEnv": "X"}, "password and passwordEnv are given"),
            ({"passwordFile": "/nowhere/at/all"}, "the option passwordFile: .*No such file"),
            ({"passwordEnv": "NO_SUCH_VARIABLE"}, "there is no variable 'NO_SUCH_VARIABLE'"),
            ({"user": "ann"}, "the option user takes a password"),
            ({"url": f"http://ann:{CANARY}@host/"}, "the option url: the URL's scheme is 'http'"),
            ({"url": f"amqp://ann:{CANARY}@host:port/"}, "the option url"),
            ({"password": ""}, "the option password is ...; it must be a text"),
        ],
    )
    def test_what_is_wrong_is_said_without_the_password(self, given: dict[str, str], why: str) -> None:
        with pytest.raises(InvalidOption, match=why) as raised:
            Broker(read_options(given, READ), "test")
        assert CANARY not in str(raised.value)
