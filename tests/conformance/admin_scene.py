"""What the tests of administration over HTTP begin with: a virtual host, a user, and bodies that are accepted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.http_client import Api

ALL = {"configure": ".*", "write": ".*", "read": ".*"}
TOPIC = {"exchange": "amq.topic", "write": "^a", "read": "^b"}
POLICY = {"pattern": "^x", "definition": {"max-length": 5}}
SHOVEL = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}
UPSTREAM = {"uri": "amqp://u:secret@h/v"}


@contextmanager
def admin_scene(url: str) -> Iterator[Api]:
    """With the virtual host v and the user victim as they are at first."""
    api = Api(url)
    assert api.put("/vhosts/v").status == 201
    assert api.put("/users/victim", {"password": "x", "tags": ""}).status in (201, 204)
    yield api
    assert api.delete("/vhosts/v").status in (204, 404)
    api.delete("/users/victim")
