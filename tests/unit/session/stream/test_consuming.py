"""Commands of consumers: where subscriptions begin, their credit, kept offsets, and groups."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from leveret.testing import Broker
from leveret.wire import stream_commands as commands
from leveret.wire.stream_codes import Code, OffsetType
from leveret.wire.stream_commands import OffsetSpec
from tests.conformance.raw_stream_client import RawStreamClient
from tests.unit.session.stream.scene import FIRST, connected, eventually, filled, publish, put_user


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[RawStreamClient]:
    with connected(broker) as client:
        yield client


LETTERS = [b"a", b"b", b"c", b"d", b"e"]


@pytest.mark.parametrize(
    ("offset", "first"),
    [
        (OffsetSpec(OffsetType.FIRST), 0),
        (OffsetSpec(OffsetType.LAST), 4),
        (OffsetSpec(OffsetType.NEXT), 5),
        (OffsetSpec(OffsetType.OFFSET, 0), 0),
        (OffsetSpec(OffsetType.OFFSET, 3), 3),
        (OffsetSpec(OffsetType.OFFSET, 5), 5),
        (OffsetSpec(OffsetType.OFFSET, 6), 5),
        (OffsetSpec(OffsetType.OFFSET, 1 << 40), 5),
        (OffsetSpec(OffsetType.TIMESTAMP, 0), 0),
        (OffsetSpec(OffsetType.TIMESTAMP, -5), 0),
        (OffsetSpec(OffsetType.TIMESTAMP, 1 << 45), 5),
    ],
)
def test_where_a_subscription_begins(broker: Broker, client: RawStreamClient, offset: OffsetSpec, first: int) -> None:
    stream = f"from-{offset.kind}-{offset.value}"
    filled(client, stream, *LETTERS)
    client.do(commands.Subscribe, 1, stream, offset, 10, {})
    if first < 5:
        assert client.receive_messages() == (first, LETTERS[first:])
    with connected(broker) as other:
        other.do(commands.DeclarePublisher, 1, "", stream)
        publish(other, 1, b"f", b"g")
    assert client.receive_messages() == (max(first, 5), [b"f", b"g"][max(first - 5, 0) :])
    resolved = client.do(commands.ResolveOffsetSpec, stream, OffsetSpec(OffsetType.LAST), {})
    assert (resolved.kind, resolved.offset) == (OffsetType.OFFSET, 6)


def test_a_timestamp_finds_what_came_since(client: RawStreamClient) -> None:
    filled(client, "moments", b"before")
    time.sleep(0.05)
    moment = int(time.time() * 1000)
    time.sleep(0.05)
    client.do(commands.DeclarePublisher, 1, "", "moments")
    publish(client, 1, b"after")
    client.do(commands.Subscribe, 1, "moments", OffsetSpec(OffsetType.TIMESTAMP, moment), 10, {})
    assert client.receive_messages() == (1, [b"after"])


def test_credit_is_chunks(client: RawStreamClient) -> None:
    filled(client, "credit", *[bytes([65 + i]) * 50000 for i in range(4)])
    client.do(commands.Subscribe, 1, "credit", FIRST, 1, {})
    assert client.receive_messages()[0] == 0
    assert client.is_silent(0.1)
    client.send(commands.Credit(1, 2))
    assert [client.receive_messages()[0] for _ in range(2)] == [1, 2]
    assert client.is_silent(0.1)
    client.do(commands.Unsubscribe, 1)
    client.send(commands.Credit(1, 2))
    assert client.receive(commands.CreditResponse) == commands.CreditResponse(Code.SUBSCRIPTION_ID_DOES_NOT_EXIST, 1)
    assert client.code(commands.Unsubscribe, 1) == Code.SUBSCRIPTION_ID_DOES_NOT_EXIST


def test_what_cannot_be_subscribed_to(broker: Broker, client: RawStreamClient) -> None:
    filled(client, "taken", b"x")
    assert client.code(commands.Subscribe, 1, "nowhere", FIRST, 1, {}) == Code.STREAM_DOES_NOT_EXIST
    client.do(commands.Subscribe, 1, "taken", OffsetSpec(OffsetType.NEXT), 1, {})
    assert client.code(commands.Subscribe, 1, "taken", FIRST, 1, {}) == Code.SUBSCRIPTION_ID_ALREADY_EXISTS
    assert client.code(commands.Subscribe, 2, "taken", OffsetSpec(0), 1, {}) == Code.PRECONDITION_FAILED
    for properties in (
        {"single-active-consumer": "true"},
        {"single-active-consumer": "true", "name": "n" * 256},
        {"single-active-consumer": "true", "name": "n", "super-stream": "none"},
        {f"filter.{i}": str(i) for i in range(300)},
    ):
        assert client.code(commands.Subscribe, 2, "taken", FIRST, 1, properties) == Code.PRECONDITION_FAILED
    put_user(broker, "blind", read="^$")
    with connected(broker, user="blind", password="secret") as other:
        for kind, fields in (
            (commands.Subscribe, (1, "taken", FIRST, 1, {})),
            (commands.QueryOffset, ("me", "taken")),
            (commands.StreamStats, ("taken",)),
            (commands.ResolveOffsetSpec, ("taken", FIRST, {})),
        ):
            assert other.code(kind, *fields) == Code.ACCESS_REFUSED


def test_the_version_that_the_client_knows_is_sent(client: RawStreamClient) -> None:
    filled(client, "versions", b"x", b"y")
    versions = client.do(commands.ExchangeCommandVersions, [(8, 1, 2), (2, 1, 1)]).commands
    assert versions[1] == (2, 1, 2)
    assert versions[7] == (8, 1, 2)
    client.do(commands.Subscribe, 1, "versions", FIRST, 1, {})
    frame = client.receive_frame()
    assert int.from_bytes(frame[2:4], "big") == 2
    assert int.from_bytes(frame[5:13], "big") == 1


def test_offsets_are_kept_by_name(broker: Broker, client: RawStreamClient) -> None:
    filled(client, "kept", b"x")
    assert client.code(commands.QueryOffset, "me", "kept") == Code.NO_OFFSET
    client.send(commands.StoreOffset("me", "kept", 41))
    client.send(commands.StoreOffset("me", "kept", 42))
    client.send(commands.StoreOffset("", "kept", 1))
    client.send(commands.StoreOffset("x" * 300, "kept", 1))
    client.send(commands.StoreOffset("me", "nowhere", 1))
    assert client.do(commands.QueryOffset, "me", "kept").offset == 42
    assert client.code(commands.QueryOffset, "", "kept") == Code.NO_OFFSET
    assert client.code(commands.QueryOffset, "me", "nowhere") == Code.STREAM_DOES_NOT_EXIST


def test_only_what_matches_is_sent(client: RawStreamClient) -> None:
    client.do(commands.Create, "filtered", {})
    client.do(commands.DeclarePublisher, 1, "", "filtered")
    client.publish_filtered(1, *[(i, b"even" if i % 2 == 0 else b"odd", bytes([i])) for i in range(4)])
    assert client.receive(commands.PublishConfirm).publishing_ids == [0, 1, 2, 3]
    publish(client, 1, b"unfiltered", first=4)
    for id, properties, expected in (
        (1, {"filter.0": "odd"}, (1, [b"\x01", b"\x02", b"\x03"])),
        (2, {"filter.0": "none", "filter.1": "even"}, (0, [b"\x00", b"\x01", b"\x02"])),
        (3, {"filter.0": "none", "match-unfiltered": "true"}, (4, [b"unfiltered"])),
    ):
        client.do(commands.Subscribe, id, "filtered", FIRST, 1, properties)
        assert client.receive_messages() == expected
    client.do(commands.Subscribe, 4, "filtered", FIRST, 1, {"filter.0": "none", "match-unfiltered": "false"})
    assert client.is_silent(0.2)


def test_a_deleted_stream_ends_its_subscriptions(broker: Broker, client: RawStreamClient) -> None:
    filled(client, "mortal", b"x")
    client.do(commands.Subscribe, 1, "mortal", OffsetSpec(OffsetType.NEXT), 1, {})
    with connected(broker) as other:
        other.do(commands.Delete, "mortal")
    assert client.receive(commands.MetadataUpdate) == commands.MetadataUpdate(Code.STREAM_NOT_AVAILABLE, "mortal")
    assert client.code(commands.Unsubscribe, 1) == Code.SUBSCRIPTION_ID_DOES_NOT_EXIST


# ---- groups

GROUP = {"single-active-consumer": "true", "name": "group"}


def join(client: RawStreamClient, id: int, stream: str, **more: str) -> None:
    """Subscribes as a member; questions may come before the answer."""
    client.send(commands.Subscribe(id, id, stream, FIRST, 10, {**GROUP, **more}))


def told(client: RawStreamClient) -> commands.ConsumerUpdate:
    return client.receive(commands.ConsumerUpdate)


def answer(client: RawStreamClient, update: commands.ConsumerUpdate, offset: OffsetSpec = FIRST) -> None:
    client.send(commands.ConsumerUpdateResponse(update.correlation_id, Code.OK, offset))


def test_one_member_is_active_and_begins_where_it_says(broker: Broker, client: RawStreamClient) -> None:
    filled(client, "shared", *LETTERS)
    join(client, 1, "shared")
    update = told(client)
    assert (update.subscription_id, update.active) == (1, 1)
    assert client.receive(commands.SubscribeResponse).code == Code.OK
    assert client.is_silent(0.1)
    answer(client, update, OffsetSpec(OffsetType.OFFSET, 3))
    assert client.receive_messages() == (3, [b"d", b"e"])
    with connected(broker) as other:
        join(other, 1, "shared")
        assert other.receive(commands.SubscribeResponse).code == Code.OK
        assert other.is_silent(0.1)
        other.send(commands.Credit(1, 1))
        assert other.receive(commands.CreditResponse).code == Code.PRECONDITION_FAILED
        client.do(commands.Unsubscribe, 1)
        update = told(other)
        assert update.active == 1
        # Nothing of its own: where it asked to begin when it subscribed.
        answer(other, update, OffsetSpec(OffsetType.NONE))
        assert other.receive_messages() == (0, LETTERS)
    eventually(lambda: broker.call(lambda node: len(node.broker.stream_groups)) == 0)


def test_partitions_are_handed_over_step_by_step(broker: Broker, client: RawStreamClient) -> None:
    client.do(commands.CreateSuperStream, "super", ["super-0", "super-1"], ["0", "1"], {})
    for id, stream in ((1, "super-0"), (2, "super-1")):
        join(client, id, stream, **{"super-stream": "super"})
        update = told(client)
        assert (update.subscription_id, update.active) == (id, 1)
        answer(client, update)
        client.receive(commands.SubscribeResponse)
    with connected(broker) as other:
        for id, stream in ((1, "super-0"), (2, "super-1")):
            join(other, id, stream, **{"super-stream": "super"})
            assert other.receive(commands.SubscribeResponse).code == Code.OK
        # The second partition goes to the second member, once the first has let go.
        update = told(client)
        assert (update.subscription_id, update.active) == (2, 0)
        assert other.is_silent(0.1)
        answer(client, update)
        update = told(other)
        assert (update.subscription_id, update.active) == (2, 1)
        answer(other, update)
        other.do(commands.DeclarePublisher, 1, "", "super-1")
        other.publish(1, (1, b"x"))
        assert {other.receive_frame()[1] for _ in range(2)} == {3, 8}
        assert client.is_silent(0.1)
    # When the member is gone the first gets it back.
    update = told(client)
    assert (update.subscription_id, update.active) == (2, 1)
    answer(client, update, OffsetSpec(OffsetType.FIRST))
    assert client.receive_messages() == (0, [b"x"])


def test_answers_that_nobody_asked_for_are_ignored(client: RawStreamClient) -> None:
    answer(client, commands.ConsumerUpdate(12345, 1, 1))
    assert client.code(commands.Unsubscribe, 1) == Code.SUBSCRIPTION_ID_DOES_NOT_EXIST
