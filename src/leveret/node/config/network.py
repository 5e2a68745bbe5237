"""The sections about connections: where they come in, TLS, and how much each may ask for."""

from typing import Annotated, Literal

from leveret.node.config.declaring import PORT_OR_OFF_WANTED, PortOrOff, Section, said
from leveret.runtime.secret import Secret

# What follows from the port for AMQP if it is not set itself, so that several nodes of one machine need not be told
# everything: as far away as RabbitMQ's ports are from 5672.
FOLLOWING_PORTS = {
    "listen.stream_port": 5552 - 5672,
    "listen.management_port": 15672 - 5672,
    "listen.metrics_port": 15692 - 5672,
}

# What listens: by the beginning of the names of its settings.
DOORS = ("", "tls_", "stream_", "stream_tls_", "management_", "metrics_")
# Those by which messages come and go.
CLIENT_DOORS = DOORS[:4]

# Ten years, as for the argument x-consumer-timeout.
ACK_TIMEOUT_MS_MAX = 10 * 365 * 24 * 60 * 60 * 1000


class ListenSettings(Section, frozen=True):
    """[listen] addresses and ports for clients"""

    host: Annotated[
        str, said('Address to listen on; "0.0.0.0" for all IPv4 addresses, "::" for all addresses.', flag="--host")
    ] = "127.0.0.1"
    port: Annotated[
        PortOrOff,
        said(
            'Port for AMQP; 0 for any free port, "off" to accept AMQP only over TLS.',
            flag="--port",
            wanted=PORT_OR_OFF_WANTED,
        ),
    ] = 5672
    tls_host: Annotated[str, said("Address for AMQP over TLS; empty for `listen.host`.")] = ""
    tls_port: Annotated[
        PortOrOff,
        said('Port for AMQP over TLS, usually 5671; "off" for none.', flag="--tls-port", wanted=PORT_OR_OFF_WANTED),
    ] = "off"
    stream_host: Annotated[str, said("Address for the stream protocol; empty for `listen.host`.")] = ""
    stream_port: Annotated[
        PortOrOff,
        said(
            'Port for the stream protocol, "off" for none; by default 120 below `listen.port`.',
            flag="--stream-port",
            wanted=PORT_OR_OFF_WANTED,
        ),
    ] = 5552
    stream_tls_host: Annotated[str, said("Address for the stream protocol over TLS; empty for `listen.host`.")] = ""
    stream_tls_port: Annotated[
        PortOrOff,
        said('Port for the stream protocol over TLS, usually 5551; "off" for none.', wanted=PORT_OR_OFF_WANTED),
    ] = "off"
    management_host: Annotated[str, said("Address for the management API; empty for `listen.host`.")] = ""
    management_port: Annotated[
        PortOrOff,
        said(
            'Port for the management API, "off" for none; by default 10000 above `listen.port`.',
            flag="--management-port",
            wanted=PORT_OR_OFF_WANTED,
        ),
    ] = 15672
    management_tls: Annotated[bool, said("Whether the management API uses HTTPS, with the certificate of `[tls]`.")] = (
        False
    )
    metrics_host: Annotated[str, said("Address for Prometheus metrics; empty for `listen.host`.")] = ""
    metrics_port: Annotated[
        PortOrOff,
        said(
            'Port for Prometheus metrics, "off" for none; by default 10020 above `listen.port`.',
            flag="--metrics-port",
            wanted=PORT_OR_OFF_WANTED,
        ),
    ] = 15692
    metrics_tls: Annotated[bool, said("Whether metrics are served over HTTPS, with the certificate of `[tls]`.")] = (
        False
    )
    proxy_networks: Annotated[
        tuple[str, ...],
        said(
            "Networks of trusted proxies, such as 10.0.0.0/28. Connections from there must begin with a "
            "header of the PROXY protocol, version 1 or 2, and are treated as connections of the client named "
            "in it. Applies to all ports except the metrics port.",
            live=True,
        ),
    ] = ()
    socket: Annotated[
        str,
        said(
            'Unix socket for the command line on this machine, "off" for none; empty for `leveret.sock` in the data '
            "directory."
        ),
    ] = ""

    def door(self, name: str) -> tuple[str, int] | None:
        """Address and port of one of DOORS; None if it is off."""
        port = getattr(self, f"{name}port")
        return None if port == "off" else (getattr(self, f"{name}host") or self.host, int(port))


class TlsSettings(Section, frozen=True):
    """[tls] the certificate of this node, and client certificates"""

    certificate: Annotated[
        str, said("File with the certificate of this node and any intermediate certificates, PEM.", live=True)
    ] = ""
    key: Annotated[str, said("File with the private key of the certificate, PEM.", live=True)] = ""
    key_password: Annotated[Secret, said("Passphrase of the private key, if it has one.", live=True)] = Secret("")
    ca: Annotated[
        str, said("File with the certificates of the authorities that sign client certificates, PEM.", live=True)
    ] = ""
    verify: Annotated[
        Literal["none", "optional", "required"],
        said("Whether client certificates are requested, and required.", live=True),
    ] = "none"
    version_min: Annotated[Literal["1.2", "1.3"], said("The oldest accepted TLS version.", live=True)] = "1.2"
    ciphers: Annotated[
        str, said("Cipher suites for TLS 1.2, in OpenSSL's notation; empty for OpenSSL's defaults.", live=True)
    ] = ""


class LimitSettings(Section, frozen=True):
    """[limits] limits on what clients can send and create, and on the number of clients"""

    frame_max: Annotated[
        int, said("Largest frame that a client may negotiate, bytes.", ge=8192, le=16 * 1024 * 1024, live=True)
    ] = 131072
    stream_frame_max: Annotated[
        int,
        said(
            "Largest frame of the stream protocol, bytes: the size offered to clients, and the largest "
            "accepted one, whatever a client negotiates.",
            ge=8192,
            le=16 * 1024 * 1024,
            live=True,
        ),
    ] = 4 * 1024 * 1024
    channel_max: Annotated[int, said("Maximum number of open channels per connection.", ge=1, le=65535, live=True)] = (
        2047
    )
    connections_max: Annotated[
        int, said("Maximum number of open connections of this node, 0 for no limit.", ge=0, le=2**31, live=True)
    ] = 0
    channels_max: Annotated[
        int,
        said(
            "Maximum number of open channels of this node, over all connections, 0 for no limit.",
            ge=0,
            le=2**31,
            live=True,
        ),
    ] = 0
    heartbeat_s: Annotated[
        int, said("Heartbeat interval offered to clients; the client decides, 0 for none.", ge=0, le=65535, live=True)
    ] = 60
    body_bytes_max: Annotated[int, said("Largest message, bytes.", ge=1, le=2**31, live=True)] = 16777216
    handshake_deadline_s: Annotated[
        float, said("Time limit for a connection from accept to `connection.open`.", ge=0.1, le=3600, live=True)
    ] = 10.0
    ack_timeout_ms: Annotated[
        int,
        said(
            "How long a delivery may stay unacknowledged, unless its queue or consumer sets a timeout; 0 for "
            "no timeout.",
            ge=0,
            le=ACK_TIMEOUT_MS_MAX,
            live=True,
        ),
    ] = 0
    ack_timeout_action: Annotated[
        Literal["requeue", "close"],
        said(
            "What happens after the timeout: `requeue` the message, or `close` the channel with 406 as RabbitMQ does.",
            live=True,
        ),
    ] = "requeue"
    consumers_per_channel_max: Annotated[
        int, said("Maximum number of consumers per channel, 0 for no limit.", ge=0, le=2**31, live=True)
    ] = 10_000
    consumers_per_connection_max: Annotated[
        int,
        said(
            "Maximum number of consumers per connection, including stream subscriptions, 0 for no limit.",
            ge=0,
            le=2**31,
            live=True,
        ),
    ] = 20_000
    consumers_per_user_max: Annotated[
        int,
        said("Maximum number of consumers per user, over all connections, 0 for no limit.", ge=0, le=2**31, live=True),
    ] = 100_000
    arguments_bytes_max: Annotated[
        int,
        said(
            "Maximum size of the arguments of one exchange, queue, binding or consumer, bytes; 0 for the size "
            "of a frame.",
            ge=0,
            le=2**31,
            live=True,
        ),
    ] = 32768
    consumer_arguments_bytes_max: Annotated[
        int,
        said(
            "Maximum total size of the arguments of all consumers of one user, bytes; 0 for no limit.",
            ge=0,
            le=2**40,
            live=True,
        ),
    ] = 16777216
    exchanges_per_vhost_max: Annotated[
        int, said("Maximum number of exchanges per virtual host, 0 for no limit.", ge=0, le=2**31, live=True)
    ] = 50_000
    queues_per_vhost_max: Annotated[
        int,
        said(
            "Maximum number of queues and streams per virtual host, 0 for no limit; the limit `max-queues` of "
            "the virtual host applies in addition.",
            ge=0,
            le=2**31,
            live=True,
        ),
    ] = 200_000
    bindings_per_vhost_max: Annotated[
        int, said("Maximum number of bindings per virtual host, 0 for no limit.", ge=0, le=2**31, live=True)
    ] = 1_000_000
    arguments_per_vhost_bytes_max: Annotated[
        int,
        said(
            "Maximum total size of the arguments of all exchanges, queues and bindings of one virtual host, "
            "bytes; 0 for no limit.",
            ge=0,
            le=2**40,
            live=True,
        ),
    ] = 67108864
    policies_per_vhost_max: Annotated[
        int,
        said(
            "Maximum number of policies per virtual host, including operator policies, 0 for no limit.",
            ge=0,
            le=2**31,
            live=True,
        ),
    ] = 1_000
    parameters_per_vhost_max: Annotated[
        int,
        said(
            "Maximum number of parameters per virtual host, such as shovels, 0 for no limit.", ge=0, le=2**31, live=True
        ),
    ] = 1_000
    transaction_work_max: Annotated[
        int,
        said(
            "What one transaction may hold: each message, each copy of one for a queue, each acknowledgement and each "
            "KiB of persistent messages counts as one; a single message always fits; 0 for no limit. A commit takes "
            "effect in one step, for which all other clients wait: at most about 1 ms for a thousand. Counts for "
            "channels that choose transactions from then on.",
            ge=0,
            le=2**31,
            live=True,
        ),
    ] = 32_768
    unfinished_per_connection_bytes_max: Annotated[
        int,
        said(
            "Maximum size of the incomplete or uncommitted messages of one connection, bytes; one message of "
            "`body_bytes_max` is always accepted; 0 for no limit.",
            ge=0,
            le=2**40,
            live=True,
        ),
    ] = 67108864
    unfinished_bytes_max: Annotated[
        int,
        said(
            "The same for all connections of this node together, including incomplete stream frames, bytes. "
            "Beyond it, the broker closes the largest connection of the user with most unfinished data; 0 for "
            "no limit.",
            ge=0,
            le=2**40,
            live=True,
        ),
    ] = 536870912
