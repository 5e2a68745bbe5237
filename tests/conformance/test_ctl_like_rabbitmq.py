"""The same command lines for `rabbitmqctl` and `leveretctl`: they print the same, but for what is named here."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leveret.testing import Broker
from tests.conformance.command_line import CommandLine
from tests.conformance.rabbitmq_node import RabbitNode, running_rabbitmq
from tests.conformance.target import ORACLE_IS_TARGET

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(ORACLE_IS_TARGET, reason="it is asked beside Leveret anyway"),
    pytest.mark.skipif(shutil.which("rabbitmqctl") is None, reason="rabbitmqctl is missing"),
]
Control = Callable[..., tuple[int, list[str]]]

# In this order, with the same outcome: exit status 0 and the same lines, in any order.
SAME = [
    ["add_vhost", "v1", "--description", "d"],
    ["set_user_tags", "guest", "administrator", "x"],
    ["set_permissions", "-p", "v1", "guest", "^a", ".*", ""],
    ["set_topic_permissions", "guest", "amq.topic", "^a", "^b"],
    ["set_policy", "--priority", "2", "--apply-to", "queues", "short", "^a", '{"max-length":3}'],
    ["set_operator_policy", "--apply-to", "queues", "low", "^a", '{"max-length":3}'],
    ["set_vhost_limits", "-p", "v1", '{"max-queues":3}'],
    ["set_user_limits", "guest", '{"max-channels":100}'],
    ["set_global_parameter", "mqtt", '{"a":1}'],
    ["list_users"],
    ["list_users", "--no-table-headers"],
    ["-q", "list_users"],
    ["-s", "list_users"],
    ["list_vhosts"],
    ["list_vhosts", "name", "tracing"],
    ["trace_on", "-p", "v1"],
    ["list_vhosts", "name", "tracing"],
    ["trace_off", "-p", "v1"],
    ["-q", "trace_off", "-p", "v1"],
    ["list_permissions"],
    ["list_permissions", "-p", "v1"],
    ["list_user_permissions", "guest"],
    ["list_topic_permissions"],
    ["list_policies"],
    ["list_operator_policies"],
    ["list_operator_policies", "-p", "v1"],
    ["list_vhost_limits", "-p", "v1"],
    ["list_exchanges"],
    ["list_exchanges", "name", "type", "durable", "auto_delete", "internal", "arguments"],
    ["list_queues"],
    ["list_bindings"],
    ["list_connections"],
    ["list_channels"],
    ["list_consumers"],
    ["clear_topic_permissions", "guest", "amq.topic"],
    ["clear_permissions", "-p", "v1", "guest"],
    ["clear_policy", "short"],
    ["clear_vhost_limits", "-p", "v1"],
    ["clear_user_limits", "guest", "all"],
    ["clear_global_parameter", "mqtt"],
    ["delete_vhost", "v1"],
    ["authenticate_user", "guest", "guest"],
]

# Neither succeeds; the status is our own (see docs/cli.md), but for what makes no sense.
REFUSED = [
    (["nonsense"], 64),
    (["set_policy", "p"], 64),
    (["list_exchanges", "nonsense"], 64),
    (["delete_user", "nobody"], 1),
    (["add_user", "guest", "x"], 1),
    (["delete_vhost", "none"], 1),
    (["delete_queue", "none"], 1),
    (["purge_queue", "none"], 1),
    (["clear_policy", "none"], 1),
    (["set_policy", "p", "(", '{"max-length":3}'], 1),
    (["authenticate_user", "guest", "wrong"], 1),
    (["set_permissions", "nobody", ".*", ".*", ".*"], 1),
]


@pytest.fixture(scope="module")
def rabbit() -> Iterator[Control]:
    with running_rabbitmq() as node:
        yield _control_of(node)


def _control_of(node: RabbitNode) -> Control:
    def control(*words: str) -> tuple[int, list[str]]:
        command = ["/usr/lib/rabbitmq/bin/rabbitmqctl", *words]
        done = subprocess.run(command, env=node.environment, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout.splitlines()

    return control


@pytest.fixture(scope="module")
def leveret(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    home: Path = tmp_path_factory.mktemp("home")
    with Broker() as broker:
        line = CommandLine(home, ["--url", broker.management_url])

        def control(*words: str) -> tuple[int, list[str]]:
            ended = line.control(*words)
            return ended.status, ended.lines

        yield control


def test_the_same_lines(rabbit: Control, leveret: Control) -> None:
    differences = []
    for words in SAME:
        theirs, ours = rabbit(*words), leveret(*words)
        # An empty list of some kinds ends in an empty line there.
        if theirs[0] != ours[0] or sorted(filter(None, theirs[1])) != sorted(ours[1]):
            differences.append((words, theirs, ours))
    assert differences == [], "\n".join(map(repr, differences))


def test_the_same_refusals(rabbit: Control, leveret: Control) -> None:
    for words, status in REFUSED:
        assert rabbit(*words)[0] != 0
        assert leveret(*words)[0] == status, words
