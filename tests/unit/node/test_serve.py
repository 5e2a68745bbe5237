"""`leveret serve` as a real process: what it says, how it stops, and how it fails."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
import urllib.request
from pathlib import Path

import pytest

from leveret import PURE, __version__
from leveret.node.node import STOP_DEADLINE_S
from tests.conformance.raw_client import RawClient, ServerClosed
from tests.unit.node.process import finished, serving

STOP_SECONDS_MAX = 60


def connect(port: int) -> RawClient:
    client = RawClient("127.0.0.1", port).log_in()
    client.open_channel(1)
    return client


def test_it_says_what_it_is_where_it_listens_and_where_its_data_is(tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"
    with serving("--data-dir", str(data)) as server:
        mode = " (interpreted: LEVERET_PURE is set)" if PURE else ""
        assert server.announced == [
            f"leveret {__version__}{mode}, process {server.process.pid}",
            server.announced[1],
            f"  AMQP 0-9-1  amqp://127.0.0.1:{server.port}",
            *server.announced[3:6],
            f"  data        {data}",
        ]
        pages = re.fullmatch(r"  web UI      (http://127\.0\.0\.1:\d+/)", server.announced[1])
        assert re.fullmatch(r"  streams     rabbitmq-stream://127\.0\.0\.1:\d+", server.announced[3])
        api = re.fullmatch(r"  HTTP API    (http://127\.0\.0\.1:\d+/api/)", server.announced[4])
        metrics = re.fullmatch(r"  metrics     (http://127\.0\.0\.1:\d+/metrics)", server.announced[5])
        assert pages is not None and api is not None and metrics is not None
        for place in (pages[1], f"{api[1]}openapi.json", metrics[1]):
            with urllib.request.urlopen(place, timeout=10) as answer:
                assert answer.status == 200
        assert data.is_dir()
        assert data.stat().st_mode & 0o777 == 0o700
        with connect(server.port) as client:
            client.call(1, "queue.declare", queue="q")


def test_it_says_an_ipv6_address_as_urls_do(tmp_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with serving("--data-dir", str(tmp_path), "--host", "::1") as server:
        assert server.announced[2] == f"  AMQP 0-9-1  amqp://[::1]:{server.port}"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_closes_connections_with_320_and_ends_it_with_0(tmp_path: Path, number: signal.Signals) -> None:
    with serving("--data-dir", str(tmp_path)) as server, connect(server.port) as client:
        stranger = RawClient("127.0.0.1", server.port)
        stranger.start()
        started = time.monotonic()
        server.process.send_signal(number)
        refusal = client.refusal()
        assert (refusal.scope, refusal.code) == ("connection", 320)
        assert refusal.text == "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
        for leaving in (client, stranger):
            leaving.expect_eof()
            leaving.socket.close()
        assert server.process.wait(STOP_SECONDS_MAX) == 0
        # It did not wait for the end of the time that clients have for their answer.
        assert time.monotonic() - started < STOP_DEADLINE_S
        assert "Traceback" not in server.errors()


def test_a_client_that_does_not_answer_holds_it_up_only_for_a_moment(tmp_path: Path) -> None:
    with serving("--data-dir", str(tmp_path)) as server, connect(server.port) as client:
        server.process.terminate()
        assert client.expect(0, "connection.close")["reply_code"] == 320
        assert server.process.wait(STOP_SECONDS_MAX) == 0


def test_it_stops_while_clients_publish_and_has_said_so_to_each(tmp_path: Path) -> None:
    with serving("--data-dir", str(tmp_path)) as server:
        clients = [connect(server.port) for _ in range(3)]
        for client in clients:
            client.call(1, "queue.declare", queue="q")
            client.call(1, "confirm.select")
        deadline = time.monotonic() + 0.3
        while time.monotonic() < deadline:
            for client in clients:
                for _ in range(20):
                    client.publish(1, "", "q", bytes(2000))
        server.process.terminate()
        told = 0
        for client in clients:
            try:
                while (method := client.read()).name != "connection.close":
                    assert method.name == "basic.ack"
                told += method["reply_code"] == 320
                client.send(0, "connection.close-ok")
            except (ServerClosed, OSError):
                pass
            client.socket.close()
        assert told == 3
        assert server.process.wait(STOP_SECONDS_MAX) == 0
        assert "Traceback" not in server.errors()


def test_a_port_in_use_is_one_line_and_exit_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = finished("serve", "--port", str(port), "--data-dir", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"leveret: cannot listen on 127.0.0.1:{port}: Address already in use; is another broker running there?\n"
    )


@pytest.mark.parametrize("host", ["nowhere.invalid", "192.0.2.1", "a..b", "not a host"])
def test_an_address_that_is_not_ours_is_one_line_and_exit_1(tmp_path: Path, host: str) -> None:
    done = finished("serve", "--host", host, "--port", "0", "--data-dir", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"leveret: cannot listen on {host}:0: ")
    assert done.stderr.count("\n") == 1


def test_it_refuses_to_run_without_its_checks(tmp_path: Path) -> None:
    done = finished("serve", "--port", "0", "--data-dir", str(tmp_path), flags=("-O",))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "leveret: python -O removes the checks that guard the data; start without it\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[listen]\nprot = 1", "listen.prot is no setting; do you mean listen.port?"),
        ("[listen]\nport = 70000", "listen.port is 70000"),
        ("nonsense", "is not valid TOML"),
    ],
)
def test_a_bad_configuration_is_one_line_and_exit_1(tmp_path: Path, text: str, words: str) -> None:
    config = tmp_path / "leveret.toml"
    config.write_text(text)
    done = finished("serve", "--config", str(config), "--data-dir", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("leveret: ") and done.stderr.count("\n") == 1
    assert words in done.stderr


def test_a_data_directory_that_cannot_be_made_is_one_line_and_exit_1(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = finished("serve", "--port", "0", "--data-dir", str(tmp_path / "file" / "data"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"leveret: cannot use the data directory {tmp_path}/file/data: Not a directory\n"


def test_a_configuration_file_is_heeded_and_the_command_line_goes_over_it(tmp_path: Path) -> None:
    config = tmp_path / "leveret.toml"
    config.write_text(
        f'data_dir = "{tmp_path}/here"\nlog_level = "debug"\n[listen]\nport = 1\n[limits]\nchannel_max = 7\n'
    )
    with serving("--config", str(config), "--log-level", "info") as server:
        assert server.announced[-1] == f"  data        {tmp_path}/here"
        client = RawClient("127.0.0.1", server.port)
        client.start()
        client.start_ok()
        assert client.expect(0, "connection.tune")["channel_max"] == 7
        client.socket.close()


def test_ports_of_what_is_not_built_yet_are_accepted(tmp_path: Path) -> None:
    ports = ("--management-port", "0", "--metrics-port", "0", "--stream-port", "0")
    with serving("--data-dir", str(tmp_path), *ports) as server:
        assert server.port > 0


def test_out_of_descriptors_it_serves_who_is_there_and_takes_others_later(tmp_path: Path) -> None:
    with serving("--data-dir", str(tmp_path), descriptors_max=64) as server:
        first = connect(server.port)
        crowd = [socket.create_connection(("127.0.0.1", server.port), timeout=5) for _ in range(80)]
        first.call(1, "queue.declare", queue="q", durable=True)
        used = len(os.listdir(f"/proc/{server.process.pid}/fd"))
        # Connections never get all of them: the store needs some whatever happens.
        assert 32 < used < 64
        # Not a busy loop: hardly any processor time goes by while nobody can be accepted.
        before = processor_seconds(server.process.pid)
        time.sleep(0.6)
        assert processor_seconds(server.process.pid) - before < 0.3
        for sock in crowd:
            sock.close()
        with connect(server.port) as late:
            late.call(1, "queue.declare", queue="q", passive=True)
        first.call(1, "basic.qos")
        first.socket.close()
        server.process.terminate()
        assert server.process.wait(STOP_SECONDS_MAX) == 0
        assert "Traceback" not in server.errors()


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
