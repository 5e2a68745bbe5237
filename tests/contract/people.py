"""Users of a broker under test: made with their permissions in one go, and connected."""

import base64
import hashlib
import json
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field

from tests.conformance.raw_client import RawClient
from tests.conformance.target import LeveretTarget, RabbitTarget, Target

PASSWORD = "secret"
_SALT = b"salt"
# As RabbitMQ keeps it.
PASSWORD_HASH = base64.b64encode(_SALT + hashlib.sha256(_SALT + PASSWORD.encode()).digest()).decode()


@dataclass(frozen=True)
class Person:
    """`topics` are the patterns to write and to read, by exchange."""

    name: str
    configure: str = "^$"
    write: str = "^$"
    read: str = "^$"
    tags: tuple[str, ...] = ()
    topics: dict[str, tuple[str, str]] = field(default_factory=dict)


def make(target: Target, people: list[Person]) -> None:
    """Makes the users, with rights in the virtual host /."""
    if isinstance(target, RabbitTarget):
        _make_in_rabbitmq(target, people)
    else:
        assert isinstance(target, LeveretTarget)
        target.broker.call(lambda node: _make_in_leveret(node, people))


def _make_in_rabbitmq(target: RabbitTarget, people: list[Person]) -> None:
    definitions = {
        "users": [
            {
                "name": person.name,
                "password_hash": PASSWORD_HASH,
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "tags": ",".join(person.tags),
                "limits": {},
            }
            for person in people
        ],
        "permissions": [
            {
                "user": person.name,
                "vhost": "/",
                "configure": person.configure,
                "write": person.write,
                "read": person.read,
            }
            for person in people
        ],
        "topic_permissions": [
            {"user": person.name, "vhost": "/", "exchange": exchange, "write": write, "read": read}
            for person in people
            for exchange, (write, read) in person.topics.items()
        ],
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json", dir=target.node.directory) as file:
        json.dump(definitions, file)
        file.flush()
        target.node.control("import_definitions", file.name)


def _make_in_leveret(node: object, people: list[Person]) -> None:
    from leveret.catalog import commands
    from leveret.catalog.passwords import read_hash
    from leveret.catalog.records import Permission, TopicPermission, User

    broker = node.broker  # type: ignore[attr-defined]
    for person in people:
        broker.apply(commands.PutUser(User(person.name, read_hash(PASSWORD_HASH), person.tags)))
        right = Permission(person.name, "/", person.configure, person.write, person.read)
        broker.apply(commands.PutPermission(right))
        for exchange, (write, read) in person.topics.items():
            topic = TopicPermission(person.name, "/", exchange, write, read)
            broker.apply(commands.PutTopicPermission(topic))


class Crowd:
    """Everybody's connection, opened when it is first asked for."""

    def __init__(self, target: Target, stack: ExitStack) -> None:
        self._target = target
        self._stack = stack
        self._clients: dict[str, RawClient] = {}
        self._channels: dict[str, int] = {}

    def channel_of(self, name: str) -> tuple[RawClient, int]:
        """A new channel of this user."""
        client = self._clients.get(name)
        if client is None:
            client = self._clients[name] = self._connect(name)
        number = self._channels[name] = self._channels.get(name, 0) + 1
        client.open_channel(number)
        return client, number

    def _connect(self, name: str) -> RawClient:
        client = self._stack.enter_context(RawClient(self._target.host, self._target.port))
        client.start()
        client.start_ok(name, "guest" if name == "guest" else PASSWORD)
        client.tune_ok(client.expect(0, "connection.tune"))
        client.call(0, "connection.open", virtual_host="/")
        return client
