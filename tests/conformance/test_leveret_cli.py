"""`leveret` against a running broker: every command once, what it prints, and that it says so when it fails."""

import csv
import io
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote

import pika
import pytest

from leveret.testing import Broker
from tests.conformance.command_line import CommandLine, leaves
from tests.http_client import Api

# Commands that need no broker are tested with what they are about.
ELSEWHERE = (
    "serve",
    "config",
    "migrate",
    "storage",
    "restore",
    "completions",
    "context",
    "support-bundle",
    "pipeline",
    "sql",
)
# In tests/unit/node/cluster.
CREDENTIALS = {("cluster", verb) for verb in ("init", "token", "join", "renew")}

SHOVEL = '{{"src-uri":"amqp://","src-queue":"sa","dest-uri":"amqp://","dest-queue":"sb"}}'

# In this order. `{name}` stands for the connection of a client, `{task}` for a replay, `{file}` for a file.
WALK: list[tuple[str, str]] = [
    ("status", "leveret@"),
    ("cluster status", "leveret@"),
    ("check running", "ok"),
    ("check running --wait 1", "ok"),
    ("check alarms", "ok"),
    ("check ready", "ok"),
    ("check port {port}", "ok"),
    ("check cert --within 10", "ok"),
    ("check quorum-critical", "ok"),
    ("vhosts add team --description d --tags a,b", "added team"),
    ("vhosts add team --description e", "changed team"),
    ("vhosts list", "team"),
    ("vhosts protect team", "team is protected"),
    ("vhosts protect team --off", "team may be deleted"),
    ("limits set vhost team max-queues 5", "max-queues of vhost team is 5"),
    ("limits set user guest max-channels 500", "500"),
    ("limits list", "max-queues"),
    ("limits clear vhost team max-queues", "vhost team has no max-queues"),
    ("limits clear user guest max-channels", "user guest has no max-channels"),
    ("vhosts delete team --yes", "deleted team"),
    ("users add ann --tag management --grant", "added ann"),
    ("users list", "ann"),
    ("users passwd ann", "changed the password of ann"),
    ("users tags ann monitoring policymaker", "monitoring, policymaker"),
    ("users hash", ""),
    ("users suspended", ""),
    ("users release --all --yes", "released all users"),
    ("permissions set ann ^a", "ann has permissions in /"),
    ("permissions list --of ann", "^a"),
    ("permissions clear ann", "ann has no permissions in /"),
    ("topic-permissions set ann amq.topic ^a ^b", "ann has topic permissions for amq.topic"),
    ("topic-permissions list", "amq.topic"),
    ("topic-permissions clear ann", "cleared"),
    ("users delete ann -y", "deleted ann"),
    ("queues declare orders -A x-max-length=100 -A x-dead-letter-exchange= -A x-dead-letter-routing-key=dead", "made"),
    ("queues declare orders -A x-max-length=100 -A x-dead-letter-exchange= -A x-dead-letter-routing-key=dead", "there"),
    ("queues declare dead", "made dead"),
    ("queues declare log --type stream", "made log"),
    ("exchanges declare in --type topic", "made in"),
    ("exchanges list", "amq.topic"),
    ("exchanges show in", "topic"),
    ("bindings declare in orders order.#", "bound orders to in"),
    ("bindings declare amq.fanout in --to-exchange", "bound in to amq.fanout"),
    ("bindings list", "order.#"),
    ("exchanges route amq.fanout order.new", "reaches orders"),
    ("exchanges route in nothing", "reaches no queue"),
    ("publish in order.new hello -H kind=new -P priority=3", "published"),
    ("queues list --sort messages --reverse --name ^o", "orders"),
    ("queues show orders", "x-max-length=100"),
    ("queues peek orders", "hello"),
    ("queues pause orders", "paused orders"),
    ("queues resume orders", "resumed orders"),
    ("queues unacked orders", "delivery_tag"),
    ("get orders", "hello"),
    ("get orders --ack", "kind: new"),
    ("get orders", "empty"),
    ("queues purge orders --yes", "purged orders"),
    ("policies set short ^o max-length=7 --priority 2 --apply-to queues", "set policy short"),
    ("policies list", "max-length=7"),
    ("policies delete short", "deleted policy short"),
    ("policies set short ^o --operator max-length=7 --apply-to queues", "set policy short"),
    ("policies list --operator", "max-length=7"),
    ("policies delete short --operator", "deleted policy short"),
    ("parameters set federation-upstream up {{\"uri\":\"amqp://u:secret@there\"}}", "set up"),
    ("parameters list", "federation-upstream"),
    ("parameters clear federation-upstream up", "cleared up"),
    ("parameters set global mqtt {{\"a\":1}}", "set mqtt"),
    ("parameters list --component global", "mqtt"),
    ("parameters clear global mqtt", "cleared mqtt"),
    ("connections list", "{name}"),
    ("connections show {name}", "guest"),
    ("channels list", "guest"),
    ("consumers list --all", "reader"),
    ("consumers list", "reader"),
    ("streams list", "log"),
    ("streams set-offset log me 0", "me goes on behind 0"),
    ("streams offsets log", "consumer"),
    ("streams publishers", "publisher_id"),
    ("streams consumers", "subscription_id"),
    ("dlq list", "rejected"),
    ("dlq inspect dead", "x-first-death-queue: orders"),
    ("dlq replay dead --dry-run", "matched"),
    ("dlq replay dead --limit 1 --filter {{\"reason\":\"rejected\"}}", "moved"),
    ("dlq tasks", "done"),
    ("dlq schedule dead --every 30d --archive-after off", "set the schedule of dead"),
    ("dlq schedule", "2592000.0"),
    ("dlq schedule dead --clear", "cleared the schedule of dead"),
    ("dlq alerts", ""),
    ("audit --count 3", "done"),
    ("audit --by guest --action reprocess", "queue=dead"),
    ("events --past --count 2", "vhost.put"),
    ("definitions export {file}", "wrote {file}"),
    ("definitions diff {file}", "are there already"),
    ("definitions validate {file}", "can be imported"),
    ("definitions import {file} --yes", "imported {file}"),
    ("backup --to {backup}", "backed up"),
    ("backup --to {backup}-later --copy --detach", "has begun"),
    ("api /whoami", "guest"),
    ("api -X PUT /api/queues/%2F/by-hand --data {{\"durable\":true}}", ""),
    ("queues delete by-hand --if-empty", "deleted by-hand"),
    ("bindings delete in orders order.#", "unbound orders from in"),
    ("exchanges delete in --yes", "deleted in"),
    ("connections close {name} --reason enough --yes", "closed connection"),
    ("queues delete log --yes", "deleted log"),
    ("shovels set s " + SHOVEL, "set s"),
    ("shovels list --all", "sa"),
    ("shovels show s", "dynamic"),
    ("shovels pause s", "paused s"),
    ("shovels resume s", "resumed s"),
    ("shovels restart s", "restarted s"),
    ("shovels delete s --yes", "deleted s"),
    ("queues move dead moved", "moved dead to moved"),
    ("federation set-upstream near amqp://", "set near"),
    ("policies set near ^amq.direct$ federation-upstream=near --apply-to exchanges", "set policy near"),
    ("federation links", "near"),
    ("federation restart {link}", "restarted {link}"),
    ("policies delete near", "deleted policy near"),
]  # fmt: skip


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"listen.stream_port": 0}) as broker:
        yield broker


@pytest.fixture
def leveret(broker: Broker, tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path, ["--url", broker.management_url])


@pytest.fixture
def api(broker: Broker) -> Api:
    return Api(broker)


def test_every_command(broker: Broker, leveret: CommandLine, tmp_path: Path) -> None:
    """In the order in which somebody might go through them."""
    names = {"port": str(broker.port), "file": str(tmp_path / "definitions.json"), "name": ""}
    names["backup"] = str(tmp_path / "backup")
    with ExitStack() as clients:
        for template, expected in WALK:
            if template.startswith("connections list"):
                names["name"] = clients.enter_context(reading(broker))
            if template.startswith("dlq list"):
                reject(broker, "orders", 2)
            if "{link}" in template:
                names["link"] = Api(broker).get("/federation-links").body[0]["id"]
            words = [word.format(**names) for word in template.split(" ")]
            ended = leveret(*words, given="secret\n" if words[0] == "users" else "")
            assert expected.format(**names) in ended.out + ended.errors, (words, ended)


@contextmanager
def reading(broker: Broker) -> Iterator[str]:
    """A client that consumes until it is sent away; the name of its connection."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.queue_declare("read", exclusive=True)
    channel.basic_consume("read", lambda *_: None, consumer_tag="reader")
    (seen,) = Api(broker).get("/connections").body
    yield seen["name"]
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="enough"):
        connection.process_data_events(5)


def reject(broker: Broker, queue: str, count: int) -> None:
    """Makes dead letters."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    for _ in range(count):
        channel.basic_publish("", queue, b"refused", pika.BasicProperties(delivery_mode=2))
        method, _properties, _body = channel.basic_get(queue)
        assert method is not None
        channel.basic_reject(method.delivery_tag, requeue=False)
    connection.close()


def test_the_walk_knows_every_command() -> None:
    from leveret.node.cli import main

    walked = [tuple(words.split(" ")) for words, _ in WALK]
    elsewhere = CREDENTIALS | {("queues", "tail")}
    missing = [
        leaf
        for leaf in leaves(main)
        if leaf[0] not in ELSEWHERE and leaf not in elsewhere and not any(w[: len(leaf)] == leaf for w in walked)
    ]
    assert missing == []


def test_formats(leveret: CommandLine, api: Api) -> None:
    for name in ("f1", "f,2"):
        api.put(f"/queues/%2F/{name}", {"durable": True, "arguments": {"x-max-length": 5}})
    asked = ("queues", "list", "--name", "^f", "--sort", "name", "--columns", "name,durable,arguments,messages")
    assert leveret(*asked).lines == [
        "name  durable  arguments       messages",
        "f,2   yes      x-max-length=5         0",
        "f1    yes      x-max-length=5         0",
    ]
    assert leveret(*asked, "-o", "json").json == [
        {"name": name, "durable": True, "arguments": {"x-max-length": 5}, "messages": 0} for name in ("f,2", "f1")
    ]
    assert list(csv.reader(io.StringIO(leveret(*asked, "-o", "csv").out))) == [
        ["name", "durable", "arguments", "messages"],
        ["f,2", "true", '{"x-max-length": 5}', "0"],
        ["f1", "true", '{"x-max-length": 5}', "0"],
    ]
    assert leveret("status", "-o", "json").json["queues"] >= 2
    assert leveret("queues", "show", "f1", "-o", "json").json["name"] == "f1"
    for name in ("f1", "f,2"):
        leveret("queues", "delete", name, "--yes")


def test_many_pages(leveret: CommandLine, api: Api) -> None:
    """More than the API gives at once."""
    assert api.post("/definitions", {"queues": [
        {"name": f"many-{number}", "vhost": "/", "durable": False, "auto_delete": False, "arguments": {}}
        for number in range(501)
    ]}).status in (200, 204)  # fmt: skip
    found = leveret("queues", "list", "--name", "^many-", "-o", "json").json
    assert len({queue["name"] for queue in found}) == 501
    for number in range(501):
        api.delete(f"/queues/%2F/many-{number}")


def test_control_characters_do_not_reach_the_terminal(leveret: CommandLine, api: Api) -> None:
    name = "evil\x1b[2J\x07\u202e\u009b"
    assert api.put(f"/queues/%2F/{quote(name)}", {"durable": True}).status == 201
    api.post("/exchanges/%2F/amq.default/publish", {
        "properties": {"headers": {"\x1b]0;h\x07": "\x1b[31m"}}, "routing_key": name,
        "payload": "\x1b[2Jboo", "payload_encoding": "string",
    })  # fmt: skip
    for words in (("queues", "list"), ("queues", "show", name), ("queues", "peek", name), ("bindings", "list"),
                  ("get", name), ("audit",), ("queues", "purge", name, "-y"), ("events", "--past")):  # fmt: skip
        ended = leveret(*words)
        for letter in "\x1b\x07\u202e\u009b":
            assert letter not in ended.out + ended.errors, words
    assert "evil\\x1b[2J\\x07" in leveret("queues", "list").out
    refused = leveret.run("queues", "declare", name, "--transient")
    assert refused.status == 1
    assert "\x1b" not in refused.errors
    assert "\x1b" not in leveret.control("list_queues").out
    leveret("queues", "delete", name, "--yes")


def test_what_cannot_be_undone_is_asked_for(leveret: CommandLine, api: Api) -> None:
    """Nobody is at the terminal here, so it must be said with --yes."""
    api.put("/queues/%2F/precious", {"durable": True})
    for words in (("queues", "delete", "precious"), ("queues", "purge", "precious"), ("vhosts", "delete", "/"),
                  ("users", "delete", "guest"), ("connections", "close", "--of-user", "guest")):  # fmt: skip
        ended = leveret.run(*words)
        assert ended.status == 1
        assert "--yes" in ended.errors
    assert api.get("/queues/%2F/precious").status == 200


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("queues", "show", "none"), 1, "not found: queues / none"),
        (("queues", "declare", "q", "-A", "x-max-length=-1"), 1, "x-max-length"),
        (("publish", "amq.default", "nobody", "lost"), 1, "routed to no queue"),
        (("bindings", "delete", "amq.topic", "none"), 1, "there is no such binding"),
        (("check", "port", "1"), 1, "No active listener"),
        (("definitions", "import", "/none.json", "--yes"), 1, "cannot read /none.json"),
        (("api", "/nonsense"), 1, "not found"),
        (("queues", "list", "--output", "xml"), 2, "xml"),
        (("queues", "nonsense"), 2, "nonsense"),
        (("policies", "set", "p", "^a"), 2, "KEY=VALUE"),
        (("policies", "set", "p", "^a", "max-length"), 2, "NAME=VALUE"),
        (("limits", "set", "vhost", "/", "max-channels", "1"), 2, "max-connections and max-queues"),
        (("api", "/whoami", "--data", "{nonsense"), 2, "not JSON"),
        (("parameters", "set", "c", "n", "{nonsense"), 2, "not JSON"),
        (("publish", "amq.default", "q"), 2, "PAYLOAD"),
    ],
)
def test_how_it_fails(leveret: CommandLine, words: tuple[str, ...], status: int, told: str) -> None:
    ended = leveret.run(*words)
    assert (ended.status, ended.out) == (status, "")
    assert told in ended.errors
