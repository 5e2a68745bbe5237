"""The broker's HTTP API, as far as the connector needs it: which streams there are, and looking into queues.

Blocking, with what Python has: it is asked seldom. The password goes where the options say and nowhere else: beside
amqps:// only over TLS, which is checked as that of AMQP is; no redirect is followed, and no proxy of the environment
asked."""

from __future__ import annotations

import base64
import http.client
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, urlsplit

import msgspec

from leveret.spark.errors import InvalidOption, SourceFailed

if TYPE_CHECKING:
    from leveret.spark.broker_client import Broker

__all__ = ["find_partitions", "get", "list_streams", "post"]

PORT, TLS_PORT = 15672, 15671
TIMEOUT_S = 30.0
REFUSAL_BYTES_MAX = 2000
THIS_MACHINE = ("127.0.0.1", "::1", "localhost")


class _TlsConnection(http.client.HTTPSConnection):
    """With another name than the host's to be looked for in the certificate, if there is one."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext, server_name: str) -> None:
        super().__init__(host, port, timeout=TIMEOUT_S, context=context)
        self._tls = context
        self._server_name = server_name

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._server_name)


def base_url(broker: Broker) -> str:
    """Where the API is; raises InvalidOption for a place to which the password must not go."""
    if broker.management_url is None:
        host = f"[{broker.address.host}]" if ":" in broker.address.host else broker.address.host
        return f"https://{host}:{TLS_PORT}" if broker.address.tls else f"http://{host}:{PORT}"
    url = broker.management_url.rstrip("/")
    place = urlsplit(url)
    if place.scheme not in ("http", "https") or not place.hostname:
        raise InvalidOption("the option managementUrl must be an http:// or https:// URL")
    exposed = place.scheme == "http" and broker.address.tls and place.hostname not in THIS_MACHINE
    if exposed and not broker.management_plain:
        raise InvalidOption(
            "the option url has amqps://, but managementUrl has http://, which would show the password to the network; "
            'use https://, or set the option managementPlain to "true"'
        )
    return url


def get(broker: Broker, path: str, doing: str) -> Any:
    return _ask(broker, path, doing, None)


def post(broker: Broker, path: str, body: Any, doing: str) -> Any:
    return _ask(broker, path, doing, msgspec.json.encode(body))


def _ask(broker: Broker, path: str, doing: str, body: bytes | None) -> Any:
    url = base_url(broker)
    place = urlsplit(url)
    # A name and a password in the URL are no part of what errors show, and those of the options count.
    shown = f"{place.scheme}://{place.netloc.rpartition('@')[2]}{place.path}"
    login = base64.b64encode(f"{broker.user}:{broker.password}".encode()).decode()
    headers = {"Authorization": f"Basic {login}", "Accept": "application/json"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    connection = _connection(broker, place)
    try:
        connection.request("GET" if body is None else "POST", f"{place.path}{path}", body, headers)
        answer = connection.getresponse()
        if answer.status >= 300:
            said = _refusal(answer)
            raise SourceFailed(f"{doing}: the management API at {shown} answers {answer.status}: {said}")
        return msgspec.json.decode(answer.read())
    except (OSError, http.client.HTTPException) as error:
        raise SourceFailed(
            f"{doing} takes the management API, and {shown} cannot be reached: {error}; the option managementUrl "
            "says where it is"
        ) from None
    finally:
        connection.close()


def _connection(broker: Broker, place: SplitResult) -> http.client.HTTPConnection:
    assert place.hostname is not None
    if place.scheme == "http":
        return http.client.HTTPConnection(place.hostname, place.port or 80, timeout=TIMEOUT_S)
    name = broker.server_name or place.hostname
    return _TlsConnection(place.hostname, place.port or 443, broker.tls_context(), name)


def _refusal(answer: http.client.HTTPResponse) -> str:
    if answer.status < 400:
        to = answer.headers.get("Location", "nowhere")
        return f"a redirect to {to[:REFUSAL_BYTES_MAX]}, which is not followed, because the password would go along"
    return answer.read(REFUSAL_BYTES_MAX).decode("utf-8", "replace")


def list_streams(broker: Broker, doing: str = "looking for streams by a pattern") -> list[str]:
    """The names of all streams of the virtual host, in order."""
    path = f"/api/queues/{quote(broker.vhost, safe='')}?columns=name,type&disable_stats=true"
    queues = get(broker, path, doing)
    return sorted(queue["name"] for queue in queues if queue.get("type") == "stream")


def find_partitions(broker: Broker, super_stream: str) -> dict[str, int]:
    """The streams that are bound to the exchange of a super stream, with their numbers, in their order: for brokers
    that cannot be asked over AMQP. One that was bound without a number has that of its place."""
    doing = f"asking for the partitions of the super stream {super_stream!r}"
    path = f"/api/exchanges/{quote(broker.vhost, safe='')}/{quote(super_stream, safe='')}/bindings/source"
    try:
        bindings = get(broker, path, doing)
        streams = set(list_streams(broker, doing))
    except SourceFailed as error:
        raise SourceFailed(f"{error}; or name the partitions, all of them, with the option stream") from None
    bound = [one for one in bindings if one["destination_type"] == "queue" and one["destination"] in streams]
    orders = [(_order(one), one["destination"]) for one in bound]
    found: dict[str, int] = {}
    for place, (order, stream) in enumerate(sorted(orders, key=lambda one: (one[0] is None, one[0] or 0, one[1]))):
        found.setdefault(stream, place if order is None else order)
    return found


def _order(binding: dict[str, Any]) -> int | None:
    given = binding["arguments"].get("x-stream-partition-order", binding["routing_key"])
    try:
        return int(given)
    except ValueError:
        return None
