"""rabbitmq-c, through its command line tools."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.raw_client import RawClient
from tests.conformance.target import Target
from tests.conformance.topology import Topology, publish_all, unique_name, wait_for, wait_for_counts

WAIT_SECONDS_MAX = 30

# Runs a tool with arguments and standard input; gives its exit code and what it printed.
Tool = Callable[..., tuple[int, bytes]]


@pytest.fixture
def tool(target: Target) -> Tool:
    if not shutil.which("amqp-publish"):
        pytest.skip("rabbitmq-c's tools are missing; install with: apt-get install amqp-tools")

    def run(name: str, *arguments: str, stdin: bytes = b"") -> tuple[int, bytes]:
        # The trailing slash of our address would mean a virtual host without a name.
        command = [name, f"--url={target.url}%2f", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=WAIT_SECONDS_MAX, check=False)
        return done.returncode, done.stdout or done.stderr

    return run


def test_declare_publish_get_delete(tool: Tool) -> None:
    queue = unique_name("tools")
    assert tool("amqp-declare-queue", f"--queue={queue}", "--durable") == (0, f"{queue}\n".encode())
    assert tool("amqp-publish", f"--routing-key={queue}", "--persistent", "--body=hello") == (0, b"")
    assert tool("amqp-publish", f"--routing-key={queue}", stdin=b"from stdin")[0] == 0
    assert tool("amqp-get", f"--queue={queue}") == (0, b"hello")
    assert tool("amqp-get", f"--queue={queue}") == (0, b"from stdin")
    # Two is how the tool says that the queue is empty.
    assert tool("amqp-get", f"--queue={queue}")[0] == 2
    assert tool("amqp-delete-queue", f"--queue={queue}") == (0, b"0\n")


def test_the_broker_names_a_queue(tool: Tool) -> None:
    code, name = tool("amqp-declare-queue", "--queue=")
    assert code == 0
    assert name.startswith(b"amq.gen-")
    assert tool("amqp-delete-queue", f"--queue={name.decode().strip()}")[0] == 0


def test_delete_only_if(tool: Tool, client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client, exclusive=False)
    publish_all(client, queue, [b"1", b"2"])
    code, text = tool("amqp-delete-queue", f"--queue={queue}", "--if-empty")
    assert (code, b"not empty" in text) == (1, True)
    assert tool("amqp-delete-queue", f"--queue={queue}", "--if-unused") == (0, b"2\n")


def test_consume_runs_a_command_for_each_message(tool: Tool, client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client, exclusive=False)
    publish_all(client, queue, [b"one\n", b"two\n", b"three\n"])
    code, printed = tool("amqp-consume", f"--queue={queue}", "--count=2", "--prefetch-count=1", "cat")
    assert (code, printed) == (0, b"one\ntwo\n")
    wait_for_counts(client, queue, 1, 0)


def test_consume_without_acks(tool: Tool, client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client, exclusive=False)
    publish_all(client, queue, [b"one\n"])
    assert tool("amqp-consume", f"--queue={queue}", "--no-ack", "--count=1", "cat") == (0, b"one\n")
    wait_for_counts(client, queue, 0, 0)


def test_a_failing_command_returns_the_message(tool: Tool, client: RawClient, topology: Topology) -> None:
    """The tool does not acknowledge when its command fails, and ends with the message still unacknowledged."""
    queue = topology.queue(client, exclusive=False)
    publish_all(client, queue, [b"bad"])
    failing = ["--", "sh", "-c", "cat >/dev/null; exit 1"]
    assert tool("amqp-consume", f"--queue={queue}", "--count=1", *failing)[0] == 0
    wait_for_counts(client, queue, 1, 0)


def test_consume_from_an_exchange(
    target: Target, tool: Tool, client: RawClient, topology: Topology, tmp_path: Path
) -> None:
    exchange = topology.exchange(client, "topic", auto_delete=True)
    command = ["amqp-consume", f"--url={target.url}%2f", f"--queue={unique_name('tools')}", "--exclusive"]
    command += [f"--exchange={exchange}", "--routing-key=a.#", "--count=2", "cat"]
    with (tmp_path / "printed").open("w+b") as printed, subprocess.Popen(command, stdout=printed) as process:
        try:
            # Bound as soon as a mandatory message does not come back.
            wait_for("the tool to bind its queue", lambda: not was_returned(client, exchange, "a.b"))
            for key in ("b", "a.c"):
                client.publish(1, exchange, key, f"{key}\n".encode())
            assert process.wait(WAIT_SECONDS_MAX) == 0
        finally:
            process.kill()
        printed.seek(0)
        assert printed.read() == b"a.b\na.c\n"


def was_returned(client: RawClient, exchange: str, key: str) -> bool:
    """Publishes a message; whether it came back is known when a question asked after it is answered."""
    client.publish(1, exchange, key, f"{key}\n".encode(), mandatory=True)
    client.send(1, "channel.flow", active=True)
    if client.expect(1, "basic.return", "channel.flow-ok").name == "channel.flow-ok":
        return False
    client.expect(1, "channel.flow-ok")
    return True


def test_lines_headers_and_properties(tool: Tool, client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    options = ["--line-buffered", "--content-type=text/plain", "--reply-to=me", "--header=color: blue"]
    assert tool("amqp-publish", f"--routing-key={queue}", *options, stdin=b"one\ntwo\n")[0] == 0
    wait_for_counts(client, queue, 2, 0)
    first = client.call(1, "basic.get", queue=queue)
    assert first.body.strip() == b"one"
    expected = {"content_type": "text/plain", "reply_to": "me", "headers": {"color": "blue"}}
    assert expected.items() <= first.properties.items()


def test_a_refused_login_is_told(target: Target, tool: Tool) -> None:
    address = ["--server", target.host, "--port", str(target.port), "--username=guest", "--password=wrong"]
    done = subprocess.run(
        ["amqp-get", *address, "--queue=any"], capture_output=True, timeout=WAIT_SECONDS_MAX, check=False
    )
    assert done.returncode == 1
    assert b"403" in done.stderr
    assert b"ACCESS_REFUSED" in done.stderr
