"""Direct reply-to: a pseudo queue that carries answers straight back to the asking channel."""

import pytest

from tests.conformance.amqp_codec import Value
from tests.conformance.conftest import Connect
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.topology import Topology, refusal_of, unique_name

REPLY_TO = "amq.rabbitmq.reply-to"


def asked(client: RawClient, server_queue: str, body: bytes = b"question") -> None:
    client.publish(1, "", server_queue, body, {"reply_to": REPLY_TO, "correlation_id": "7"})


@pytest.fixture
def asker(client: RawClient) -> RawClient:
    """A client whose channel 1 waits for replies."""
    client.call(1, "basic.consume", queue=REPLY_TO, consumer_tag="replies", no_ack=True)
    return client


@pytest.fixture
def answerer(connect: Connect) -> RawClient:
    return connect()


def token_of(asker: RawClient, answerer: RawClient, topology: Topology) -> str:
    """The reply address that a server sees when the asker publishes to it."""
    queue = topology.queue(answerer)
    answerer.call(1, "basic.consume", queue=queue, no_ack=True)
    asked(asker, queue)
    question = answerer.expect(1, "basic.deliver")
    assert question.properties["correlation_id"] == "7"
    token: str = question.properties["reply_to"]
    return token


def test_a_question_and_its_answer(asker: RawClient, answerer: RawClient, topology: Topology) -> None:
    token = token_of(asker, answerer, topology)
    assert token.startswith(f"{REPLY_TO}.")
    answerer.publish(1, "", token, b"answer", {"correlation_id": "7"})
    reply = asker.expect(1, "basic.deliver")
    assert (reply.body, reply.properties) == (b"answer", {"correlation_id": "7"})
    assert reply.fields == {
        "consumer_tag": "replies",
        "delivery_tag": 1,
        "redelivered": False,
        "exchange": "",
        "routing_key": token,
    }


def test_a_token_can_be_used_again(asker: RawClient, answerer: RawClient, topology: Topology) -> None:
    token = token_of(asker, answerer, topology)
    for number in range(5):
        answerer.publish(1, "", token, b"%d" % number)
        assert asker.expect(1, "basic.deliver").body == b"%d" % number


def test_the_token_is_the_channels(connect: Connect, topology: Topology) -> None:
    answerer, client = connect(), connect()
    client.open_channel(2)
    for channel in (1, 2):
        client.call(channel, "basic.consume", queue=REPLY_TO, no_ack=True)
    queue = topology.queue(answerer)
    for channel in (1, 2):
        client.publish(channel, "", queue, b"%d" % channel, {"reply_to": REPLY_TO})
    answerer.call(1, "basic.consume", queue=queue, no_ack=True)
    for _ in range(2):
        question = answerer.expect(1, "basic.deliver")
        answerer.publish(1, "", question.properties["reply_to"], question.body)
        assert client.expect(int(question.body), "basic.deliver").body == question.body


def test_other_reply_addresses_are_left_alone(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.publish(1, "", queue, b"", {"reply_to": "a queue of mine"})
    assert client.call(1, "basic.get", queue=queue).properties == {"reply_to": "a queue of mine"}


@pytest.mark.parametrize(
    ("fields", "text"),
    [({"no_ack": False}, "reply consumer cannot acknowledge"), ({"no_ack": True}, "reply consumer already set")],
)
def test_one_consumer_without_acks(client: RawClient, fields: dict[str, bool], text: str) -> None:
    if fields["no_ack"]:
        client.call(1, "basic.consume", queue=REPLY_TO, no_ack=True)
    refusal = refusal_of(client, "basic.consume", queue=REPLY_TO, **fields)
    assert refusal == Refusal("channel", 406, f"PRECONDITION_FAILED - {text}", 60, 20)


def test_asking_without_listening(client: RawClient) -> None:
    asked(client, unique_name("nobody"))
    text = "PRECONDITION_FAILED - fast reply consumer does not exist"
    assert client.refusal() == Refusal("channel", 406, text, 60, 40)


def test_listening_can_be_cancelled_and_begun_again(asker: RawClient) -> None:
    asker.call(1, "basic.cancel", consumer_tag="replies")
    asker.call(1, "basic.consume", queue=REPLY_TO, consumer_tag="replies", no_ack=True)


def test_cancelling_stops_replies(asker: RawClient, answerer: RawClient, topology: Topology) -> None:
    token = token_of(asker, answerer, topology)
    asker.call(1, "basic.cancel", consumer_tag="replies")
    answerer.publish(1, "", token, b"too late")
    asker.expect_quiet()


@pytest.mark.parametrize("name", [f"{REPLY_TO}.unknown", REPLY_TO])
def test_an_unknown_token(client: RawClient, name: str) -> None:
    client.publish(1, "", name, b"lost")
    client.expect_quiet()
    client.publish(1, "", name, b"returned", mandatory=True)
    returned = client.expect(1, "basic.return")
    assert (returned.body, returned["reply_code"], returned["routing_key"]) == (b"returned", 312, name)


def test_a_dead_token(connect: Connect, client: RawClient, answerer: RawClient, topology: Topology) -> None:
    gone = connect()
    gone.call(1, "basic.consume", queue=REPLY_TO, no_ack=True)
    token = token_of(gone, answerer, topology)
    gone.log_out()
    client.publish(1, "", token, b"lost")
    client.publish(1, "", token, b"returned", mandatory=True)
    assert client.expect(1, "basic.return").body == b"returned"


def test_replies_are_confirmed(asker: RawClient, answerer: RawClient, topology: Topology) -> None:
    token = token_of(asker, answerer, topology)
    answerer.call(1, "confirm.select")
    answerer.publish(1, "", token, b"answer")
    assert answerer.expect(1, "basic.ack")["delivery_tag"] == 1
    assert asker.expect(1, "basic.deliver").body == b"answer"


def test_a_server_can_ask_whether_the_asker_is_still_there(
    asker: RawClient, answerer: RawClient, topology: Topology
) -> None:
    token = token_of(asker, answerer, topology)
    declared = answerer.call(1, "queue.declare", queue=token, passive=True)
    assert declared.fields == {"queue": token, "message_count": 0, "consumer_count": 1}
    asker.call(1, "channel.close")
    assert refusal_of(answerer, "queue.declare", queue=token, passive=True) == Refusal(
        "channel", 404, f"NOT_FOUND - no queue '{token}' in vhost '/'", 50, 10
    )


@pytest.mark.parametrize("passive", [False, True])
def test_the_pseudo_queue_itself_can_be_declared(client: RawClient, passive: bool) -> None:
    declared = client.call(1, "queue.declare", queue=REPLY_TO, passive=passive)
    assert declared.fields == {"queue": REPLY_TO, "message_count": 0, "consumer_count": 1}


@pytest.mark.parametrize(
    ("name", "ids"), [("basic.get", (60, 70)), ("queue.purge", (50, 30)), ("queue.bind", (50, 20))]
)
def test_the_pseudo_queue_is_no_queue(client: RawClient, name: str, ids: tuple[int, int]) -> None:
    fields: dict[str, Value] = {"exchange": "amq.direct", "routing_key": "key"} if name == "queue.bind" else {}
    refusal = refusal_of(client, name, queue=REPLY_TO, **fields)
    assert refusal == Refusal("channel", 404, f"NOT_FOUND - no queue '{REPLY_TO}' in vhost '/'", *ids)
