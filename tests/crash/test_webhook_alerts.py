"""`kill -9` while an alert waits for a webhook that does not take it: the next start posts it, under the same id."""

import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conformance.raw_client import RawClient
from tests.crash.broker_process import BrokerProcess

GRAVE: Final = "grave"
WAIT_S_MAX: Final = 30.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


class Hook:
    """A webhook that answers 503 until it is well. Notes (id, status) of each post."""

    def __init__(self) -> None:
        self.well = False
        self.posts: list[tuple[str, int]] = []
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status = 204 if hook.well else 503
                hook.posts.append((self.headers["X-Leveret-Id"], status))
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    try:
        yield made
    finally:
        made.close()


def wait(what: str, condition: Any) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


def bury(broker: BrokerProcess) -> None:
    with RawClient("127.0.0.1", broker.port).log_in() as client:
        client.open_channel(1)
        client.call(1, "queue.declare", queue=GRAVE, durable=True)
        client.call(1, "confirm.select")
        headers = {"x-first-death-time": int(time.time()) - 7200}
        client.publish(1, "", GRAVE, b"old", {"delivery_mode": 2, "headers": headers})
        client.expect(1, "basic.ack")


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_an_alert_outlives_the_broker(broker: BrokerProcess, tmp_path: Path, hook: Hook, end: str) -> None:
    schedule = {
        "queues": [GRAVE],
        "every_s": 0.2,
        "archive_after_s": 3600.0,
        "archive_dir": str(tmp_path / "archive"),
    }
    webhook = {"urls": hook.url, "pause_s": 60.0}
    broker.configure({"dead_letters": schedule, "dead_letters.webhook": webhook})
    broker.start()
    bury(broker)
    kept = broker.data_directory / "alerts" / "waiting"
    wait("the alert", lambda: hook.posts)
    wait("the file", lambda: kept.exists() and GRAVE.encode() in kept.read_bytes())
    getattr(broker, end)()
    tried = len(hook.posts)
    assert tried == (1 if end == "kill" else 2)
    hook.well = True
    broker.start()
    wait("the alert of the first life", lambda: len(hook.posts) > tried)
    assert hook.posts[-1] == (hook.posts[0][0], 204)
    wait("the file without it", lambda: GRAVE.encode() not in kept.read_bytes())
    broker.kill()
    broker.start()
    # Delivered is delivered.
    time.sleep(0.5)
    assert len(hook.posts) == tried + 1
