"""`leveretctl` against a running broker: every verb of rabbitmqctl that it takes, once at least."""

import json
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from leveret.cli.ctl.listing import LISTINGS
from leveret.cli.ctl.main import ELSEWHERE
from leveret.cli.ctl.registry import VERBS
from leveret.cli.ctl.usage import SAYS
from leveret.testing import Broker
from leveret.wire import stream_commands as commands
from leveret.wire.stream_codes import OffsetType
from tests.conformance.command_line import CommandLine
from tests.conformance.raw_stream_client import RawStreamClient
from tests.http_client import Api

SHOVEL = '{{"src-uri":"amqp://","src-queue":"sa","dest-uri":"amqp://","dest-queue":"sb"}}'

# In this order; what stands behind is in what it prints. `{name}` is the connection of a client, `{file}` a file.
WALK: list[tuple[str, str]] = [
    ("status", "node: leveret@"),
    ("cluster_status", "cluster: "),
    ("ping", "Ping succeeded"),
    ("check_running", "ok"),
    ("is_running", "ok"),
    ("node_health_check", "ok"),
    ("await_startup", ""),
    ("await_online_nodes", ""),
    ("wait --timeout 5", ""),
    ("check_alarms", "ok"),
    ("check_local_alarms", "ok"),
    ("check_virtual_hosts", "ok"),
    ("check_if_node_is_quorum_critical", "ok"),
    ("check_if_node_is_mirror_sync_critical", "ok"),
    ("check_port_listener {port}", "ok"),
    ("check_protocol_listener amqp", "ok"),
    ("check_certificate_expiration", "ok"),
    ("listeners", "amqp"),
    ("alarms", "no alarms"),
    ("memory_breakdown", "total.rss\t"),
    ("version", "0."),
    ("server_version", "0."),
    ("set_cluster_name rabbits", "rabbits"),
    ("enable_feature_flag all", "all"),
    ("list_feature_flags", "enabled"),
    ("environment", "rabbitmq_version"),
    ("report", "object_totals"),
    ("add_vhost v1 --description d --tags a,b", 'Adding vhost "v1" ...'),
    ("update_vhost_metadata v1 --description e", ""),
    ("list_vhosts name description", "v1\te"),
    ("set_vhost_limits -p v1 {{\"max-queues\":3}}", "max-queues"),
    ("list_vhost_limits -p v1", "{{\"max-queues\":3}}"),
    ("clear_vhost_limits -p v1", "Clearing vhost"),
    ("add_user ann secret", 'Adding user "ann" ...'),
    ("authenticate_user ann secret", "Success"),
    ("change_password ann other", "Changing password"),
    ("set_user_tags ann management x", "[management, x]"),
    ("list_users", "ann\t[management, x]"),
    ("set_user_limits ann {{\"max-channels\":5}}", "max-channels"),
    ("list_user_limits", "ann"),
    ("clear_user_limits ann all", "Clearing"),
    ("set_permissions -p v1 ann ^a .* .*", "Setting permissions"),
    ("list_permissions -p v1", "ann\t^a\t.*\t.*"),
    ("list_user_permissions ann", "v1\t^a\t.*\t.*"),
    ("clear_permissions -p v1 ann", "Clearing"),
    ("set_topic_permissions ann amq.topic ^a ^b", "Setting topic permissions"),
    ("list_topic_permissions", "ann\tamq.topic\t^a\t^b"),
    ("list_user_topic_permissions ann", "/\tamq.topic\t^a\t^b"),
    ("clear_topic_permissions ann amq.topic", "Clearing"),
    ("clear_password ann", "Clearing password"),
    ("hash_password secret", "$argon2id$"),
    ("delete_user ann", "Deleting user"),
    ("trace_on -p v1", "Trace enabled for vhost v1"),
    ("list_vhosts name description tracing", "v1\te\ttrue"),
    ("trace_off -p v1", "Trace disabled for vhost v1"),
    ("list_vhosts name description tracing", "v1\te\tfalse"),
    ("delete_vhost v1", "Deleting vhost"),
    ("set_policy --priority 2 --apply-to queues short ^a {{\"max-length\":3}}", "Setting policy"),
    ("list_policies", "/\tshort\t^a\tqueues\t{{\"max-length\":3}}\t2"),
    ("clear_policy short", "Clearing policy"),
    ("set_operator_policy short ^a {{\"max-length\":3}}", "Setting operator policy"),
    ("list_operator_policies", "short"),
    ("clear_operator_policy short", "Clearing policy"),
    ("set_parameter federation-upstream up {{\"uri\":\"amqp://there\"}}", "Setting runtime parameter"),
    ("list_parameters", "federation-upstream\tup\t{{\"uri\":\"amqp://there\"}}"),
    ("clear_parameter federation-upstream up", "Clearing runtime parameter"),
    ("set_parameter reprocess-schedule filled {{\"every\":\"30d\"}}", "Setting runtime parameter"),
    ("list_parameters", "reprocess-schedule\tfilled\t{{\"every\":\"30d\"}}"),
    ("clear_parameter reprocess-schedule filled", "Clearing runtime parameter"),
    ("set_global_parameter mqtt {{\"a\":1}}", "Setting global"),
    ("list_global_parameters", "mqtt"),
    ("clear_global_parameter mqtt", "Clearing global"),
    ("list_queues name messages consumers", "filled\t1\t1"),
    ("list_exchanges name type", "amq.topic\ttopic"),
    ("list_bindings", "filled"),
    ("list_connections user state", "guest\trunning"),
    ("list_channels", "guest"),
    ("list_consumers", "filled"),
    ("list_shovels", "Listing shovels"),
    ("shovel_status", "Shovel status"),
    ("federation_status", "federation"),
    ("set_parameter shovel s " + SHOVEL, "Setting runtime parameter"),
    ("restart_shovel s", "Restarting shovel \"s\""),
    ("delete_shovel s", "Deleting shovel \"s\""),
    ("set_parameter federation-upstream near {{\"uri\":\"amqp://\"}}", "Setting runtime parameter"),
    ("set_policy --apply-to exchanges near ^amq.direct$ {{\"federation-upstream\":\"near\"}}", "Setting policy"),
    ("federation_status", "{link}\tnear\tamq.direct"),
    ("restart_federation_link {link}", "Restarting federation link {link}"),
    ("clear_policy near", "Clearing policy"),
    ("list_stream_connections", "Listing"),
    ("list_stream_publishers", "Listing"),
    ("list_stream_consumers", "Listing"),
    ("close_connection {name} enough", "Closing connection"),
    ("close_all_connections enough", "Closing all connections"),
    ("close_all_user_connections guest enough", "Closing"),
    ("purge_queue filled", "Purging queue 'filled' in vhost '/' ..."),
    ("delete_queue --if-empty filled", "Deleting queue 'filled' on vhost '/' ..."),
    ("export_definitions {file}", "Exporting definitions"),
    ("import_definitions {file}", "Importing definitions"),
]  # fmt: skip


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"auth.failures_max": 1000}) as broker:
        yield broker


@pytest.fixture
def line(broker: Broker, tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path, ["--url", broker.management_url])


def test_every_verb(broker: Broker, line: CommandLine, tmp_path: Path) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.queue_declare("filled", durable=True)
    channel.basic_publish("", "filled", b"held")
    channel.basic_consume("filled", lambda *_: None)
    names = {"port": str(broker.port), "file": str(tmp_path / "definitions.json")}
    names["name"] = Api(broker).get("/connections").body[0]["name"]
    for template, expected in WALK:
        if "{link}" in template + expected:
            names["link"] = Api(broker).get("/federation-links").body[0]["id"]
        words = [word.format(**names) for word in template.split(" ")]
        ended = line.control(*words)
        assert (ended.status, ended.errors) == (0, ""), (words, ended)
        assert expected.format(**names) in ended.out, (words, ended)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="enough"):
        for _ in range(5):
            connection.process_data_events(1)


def test_the_walk_knows_every_verb(line: CommandLine) -> None:
    known = {*VERBS, *LISTINGS}
    assert known == {words.split(" ")[0] for words, _ in WALK}
    assert not known & set(ELSEWHERE)
    assert known <= set(line.control("help").out.split())


@pytest.mark.parametrize("verb", ELSEWHERE)
def test_verbs_that_make_no_sense_here(line: CommandLine, verb: str) -> None:
    ended = line.control(verb)
    assert (ended.status, ended.out) == (64, "")
    assert ELSEWHERE[verb] in ended.errors


@pytest.mark.parametrize("verb", sorted([*VERBS, *LISTINGS]))
def test_each_verb_says_how_it_is_written(verb: str) -> None:
    """Without a broker: nothing is asked."""
    alone = CommandLine(Path("/nonexistent"), [])
    told = [alone.control(verb, "--help"), alone.control("help", verb), alone.control("-?", verb)]
    assert {(ended.status, ended.errors) for ended in told} == {(0, "")}
    assert len({ended.out for ended in told}) == 1
    assert told[0].lines[0].startswith(f"Usage: leveretctl {verb}")
    assert told[0].lines[2] == SAYS[verb]


def test_usage_is_what_a_verb_takes(line: CommandLine) -> None:
    assert line.control("add_user", "--help").lines[0] == "Usage: leveretctl add_user <username> [password]"
    shown = line.control("list_queues", "--help").lines
    assert shown[0] == "Usage: leveretctl list_queues [<column> ...]"
    assert "Columns unless others are named: name, messages" in shown
    assert line.control("--help").out == line.control("help").out
    assert SAYS.keys() == {*VERBS, *LISTINGS}


def test_tables_are_erlang_terms(broker: Broker, line: CommandLine) -> None:
    """As rabbitmqctl 3.10.8 prints the same connection."""
    given = {"connection_name": 'x"y', "n": 5, "b": True, "l": [1, "two"]}
    parameters = pika.URLParameters(broker.url)
    parameters.client_properties = given
    connection = pika.BlockingConnection(parameters)
    connection.channel().queue_declare("terms", arguments={"x-max-length": 5}, exclusive=True)
    (shown,) = line.control("-s", "list_connections", "client_properties").lines
    assert shown.startswith('[{"product","Pika Python Client Library"},{"platform","')
    assert '{"capabilities",[{"authentication_failure_close",true},{"basic.nack",true},' in shown
    assert shown.endswith('{"connection_name","x\\"y"},{"n",5},{"b",true},{"l",[1,"two"]}]')
    assert 'terms\t[{"x-max-length",5}]' in line.control("list_queues", "name", "arguments").lines
    connection.close()


def test_columns_of_streams(broker: Broker, line: CommandLine) -> None:
    with RawStreamClient(broker.host, broker.stream_port) as client:
        client.log_in()
        client.do(commands.Create, "river", {})
        client.do(commands.DeclarePublisher, 1, "ref", "river")
        client.publish(1, (1, b"x"))
        client.receive(commands.PublishConfirm)
        client.do(commands.Subscribe, 2, "river", commands.OffsetSpec(OffsetType.NEXT), 10, {"name": "reader"})
        name = Api(broker).get("/stream/connections").body[0]["name"]
        assert line.control("-q", "list_stream_connections").lines == ["conn_name", name]
        columns = ("conn_name", "connection_state", "heartbeat", "subscriptions", "user", "vhost", "auth_mechanism")
        row = line.control("-s", "list_stream_connections", *columns).lines[0].split("\t")
        assert row == [name, "running", "0", "1", "guest", "/", "PLAIN"]
        assert line.control("-q", "list_stream_publishers").lines == [
            "connection_pid\tpublisher_id\tstream\treference\tmessages_published\tmessages_confirmed\tmessages_errored",
            f"{name}\t1\triver\tref\t1\t1\t0",
        ]
        head, told = line.control("-q", "list_stream_consumers").lines
        assert head.split("\t")[:4] == ["connection_pid", "subscription_id", "stream", "messages_consumed"]
        # Where it stands depends on whether it is served already.
        row = told.split("\t")
        assert (row[:4], row[6:]) == ([name, "2", "river", "0"], ["10", '[{"name","reader"}]'])
        client.do(commands.Delete, "river")


def test_formatters(line: CommandLine) -> None:
    line.control("add_vhost", "empty")
    columns = ("list_exchanges", "name", "durable", "arguments")
    assert line.control(*columns).lines[:2] == ["Listing exchanges for vhost / ...", "name\tdurable\targuments"]
    assert line.control("-q", *columns).lines[0] == "name\tdurable\targuments"
    assert line.control("-s", *columns).lines[1] == "amq.direct\ttrue\t[]"
    assert line.control("--no-table-headers", *columns).lines[1] == "\ttrue\t[]"
    rows = json.loads(line.control(*columns, "--formatter", "json").out)
    assert rows[1] == {"name": "amq.direct", "durable": True, "arguments": {}}
    stream = line.control(*columns, "--formatter=json_stream").lines
    assert [json.loads(row) for row in stream] == rows
    assert line.control(*columns, "--formatter", "csv").lines[:3] == [
        "name,durable,arguments", ",true,[]", "amq.direct,true,[]"
    ]  # fmt: skip
    none = line.control("list_queues", "-p", "empty").lines
    assert none == ["Timeout: 60.0 seconds ...", "Listing queues for vhost empty ..."]


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["list_quues"], 64, "did you mean list_queues?"),
        ([], 64, "no verb given"),
        (["add_user"], 64, "usage: leveretctl add_user <username> [password]"),
        (["list_users", "name"], 64, "usage: leveretctl list_users"),
        (["list_exchanges", "nonsense"], 64, "Info key(s) nonsense are not supported"),
        (["list_queues", "--formatter", "xml"], 64, "xml"),
        (["set_policy", "p", "^a", "{nonsense"], 64, "not JSON"),
        (["set_policy", "--priority", "high", "p", "^a", "{}"], 64, "must be a number"),
        (["add_user", "guest", "x"], 1, 'User "guest" already exists'),
        (["delete_user", "nobody"], 1, "not found"),
        (["delete_queue", "none"], 1, "not found"),
        (["set_policy", "p", "(", '{"max-length":1}'], 1, "pattern"),
        (["authenticate_user", "guest", "wrong"], 1, "failed to authenticate"),
        (["import_definitions", "/none.json"], 1, "cannot read /none.json"),
        (["trace_on", "-p", "none"], 1, "not found"),
        (["nonsense", "--help"], 64, "leveretctl has no nonsense"),
        (["help", "nonsense"], 64, "leveretctl has no nonsense"),
    ],
)
def test_how_it_fails(line: CommandLine, words: list[str], status: int, told: str) -> None:
    ended = line.control(*words)
    assert ended.status == status
    assert told in ended.errors


def test_a_password_from_standard_input(line: CommandLine) -> None:
    assert line.control("add_user", "bob", given="hidden\n").status == 0
    assert line.control("authenticate_user", "bob", given="hidden\n").out.endswith("Success\n")
    assert line.control("delete_user", "bob").status == 0


def test_a_password_from_a_file(line: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("from a file\n")
    assert line.control("add_user", "bob", "--new-password-file", str(file), given="not this\n").status == 0
    assert line.control("authenticate_user", "bob", given="from a file\n").out.endswith("Success\n")
    file.write_text("another")
    assert line.control("change_password", "bob", "--new-password-file", str(file)).status == 0
    assert line.control("authenticate_user", "bob", given="another\n").out.endswith("Success\n")
    file.write_text("third\n")
    line("users", "passwd", "bob", "--new-password-file", str(file))
    assert line.control("authenticate_user", "bob", given="third\n").out.endswith("Success\n")
    line("users", "add", "eve", "--new-password-file", str(file))
    assert line.control("authenticate_user", "eve", given="third\n").out.endswith("Success\n")
    gone = line.control("add_user", "ann", "--new-password-file", str(tmp_path / "none"))
    assert gone.status == 1 and "cannot be read" in gone.errors
    for user in ("bob", "eve"):
        assert line.control("delete_user", user).status == 0


def test_as_a_process(line: CommandLine) -> None:
    ended = line.process("list_vhosts", module="leveret.cli.ctl")
    assert (ended.status, ended.lines[:3]) == (0, ["Listing vhosts ...", "name", "/"])
    assert line.process("nonsense", module="leveret.cli.ctl").status == 64
    assert CommandLine(line.home).control("list_queues", "-p").errors == "Error: -p needs a value\n"
