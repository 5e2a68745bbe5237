"""A broker whose catalog has lost a command: nobody gets in but the local operator, who decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import ProbableAuthenticationError

from leveret.testing import Broker
from leveret.wire.stream_codes import Code
from tests.conformance.command_line import CommandLine
from tests.conformance.raw_stream_client import RawStreamClient
from tests.http_client import Api


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A data directory in which the permission that ann lost is hers again."""
    data = tmp_path / "data"
    with Broker({"data_dir": str(data)}) as broker:
        api = Api(broker)
        api.ask("PUT", "/users/ann", {"password": "secret", "tags": "administrator"})
        api.ask("PUT", "/permissions/%2F/ann", {"configure": ".*", "write": ".*", "read": ".*"})
        api.ask("DELETE", "/permissions/%2F/ann")
        # Commands behind it, with which the file says how far it is synced.
        for name in ("a", "b"):
            api.ask("PUT", f"/queues/%2F/{name}", {"durable": True})
    (path,) = (data / "catalog").glob("*.log")
    octets = bytearray(path.read_bytes())
    octets[octets.rindex(b"DeletePermission")] ^= 1
    path.write_bytes(bytes(octets))
    return data


def amqp_login(broker: Any, user: str, password: str) -> str:
    parameters = pika.ConnectionParameters(broker.host, broker.port, "/", pika.PlainCredentials(user, password))
    try:
        pika.BlockingConnection(parameters).close()
    except ProbableAuthenticationError as refused:
        return str(refused)
    return "in"


def test_nobody_gets_in_until_the_local_operator_decides(damaged: Path, tmp_path: Path) -> None:
    socket = f"/tmp/leveret-{tmp_path.name[-20:]}.sock"
    settings = {"data_dir": str(damaged), "listen.socket": socket}
    with Broker(settings) as broker:
        anybody = Api(broker, None)
        local = CommandLine(tmp_path, ["--socket", socket])
        for user, password in (("ann", "secret"), ("guest", "guest")):
            assert "ACCESS_REFUSED" in amqp_login(broker, user, password)
            assert Api(broker, user, password).get("/whoami").status == 401
            with RawStreamClient(broker.host, broker.stream_port) as stream:
                assert stream.authenticate(user, password) != Code.OK
        check = anybody.get("/health/checks/no-suspended-users")
        assert (check.status, check.body["suspended"]) == (503, 2)
        assert anybody.get("//health/ready").status == 200
        shown = local("users", "suspended", "--output", "json").json
        assert [row["user"] for row in shown] == ["ann", "guest"] and "lost" in shown[0]["reason"]
        assert local("permissions", "list", "--of", "ann", "--output", "json").json != [], "the revoked right is back"
        assert local.run("users", "release", "--yes").status == 2
        local("permissions", "clear", "ann")
        local("users", "release", "--all", "--yes")
        assert anybody.get("/health/checks/no-suspended-users").status == 200
        assert amqp_login(broker, "guest", "guest") == "in"
        audited = Api(broker).get("/audit").body
        assert any("suspended-users" in str(line) and "local operator" in str(line) for line in audited)
    with Broker(settings) as broker:
        assert amqp_login(broker, "guest", "guest") == "in"


def test_one_user_at_a_time(damaged: Path, tmp_path: Path) -> None:
    socket = f"/tmp/leveret-{tmp_path.name[-20:]}.sock"
    with Broker({"data_dir": str(damaged), "listen.socket": socket}) as broker:
        local = CommandLine(tmp_path, ["--socket", socket])
        local("users", "release", "guest", "--yes")
        assert amqp_login(broker, "guest", "guest") == "in"
        assert "ACCESS_REFUSED" in amqp_login(broker, "ann", "secret")
        assert Api(broker).ask("DELETE", "/suspended-users/guest").status == 404
        assert [row["user"] for row in Api(broker).get("/suspended-users").body] == ["ann"]
