"""The broker's HTTP API, as far as the connector needs it: which streams there are, and looking into queues.

Blocking, with what Python has: it is asked seldom."""

from __future__ import annotations

import base64
import ssl
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

import msgspec

from leveret.spark.errors import SourceFailed

if TYPE_CHECKING:
    from leveret.spark.broker import Broker

__all__ = ["get", "list_streams", "post"]

PORT = 15672
TIMEOUT_S = 30.0


def base_url(broker: Broker) -> str:
    if broker.management_url is not None:
        return broker.management_url.rstrip("/")
    host = f"[{broker.address.host}]" if ":" in broker.address.host else broker.address.host
    return f"http://{host}:{PORT}"


def get(broker: Broker, path: str, doing: str) -> Any:
    return _ask(broker, path, doing, None)


def post(broker: Broker, path: str, body: Any, doing: str) -> Any:
    return _ask(broker, path, doing, msgspec.json.encode(body))


def _ask(broker: Broker, path: str, doing: str, body: bytes | None) -> Any:
    url = base_url(broker)
    login = base64.b64encode(f"{broker.user}:{broker.password}".encode()).decode()
    headers = {"Authorization": f"Basic {login}", "Accept": "application/json"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    request = Request(f"{url}{path}", data=body, headers=headers)
    context = ssl.create_default_context(cafile=broker.ca) if url.startswith("https:") else None
    try:
        with urlopen(request, timeout=TIMEOUT_S, context=context) as answer:
            return msgspec.json.decode(answer.read())
    except HTTPError as error:
        with error:
            said = error.read(2000).decode("utf-8", "replace")
        raise SourceFailed(f"{doing}: the management API at {url} answers {error.code}: {said}") from None
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise SourceFailed(
            f"{doing} takes the management API, and {url} cannot be reached: {reason}; the option managementUrl "
            "says where it is"
        ) from None


def list_streams(broker: Broker) -> list[str]:
    """The names of all streams of the virtual host, in order."""
    path = f"/api/queues/{quote(broker.vhost, safe='')}?columns=name,type&disable_stats=true"
    queues = get(broker, path, "looking for streams by a pattern")
    return sorted(queue["name"] for queue in queues if queue.get("type") == "stream")
