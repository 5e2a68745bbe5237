"""The sections about connections: where they come in, TLS, and how much each may ask for."""

from typing import Annotated, Literal

from leveret.node.config.declaring import PORT_OR_OFF_WANTED, PORT_WANTED, Port, PortOrOff, Section, said
from leveret.runtime.secret import Secret

# What follows from the port for AMQP if it is not set itself, so that several nodes of one machine need not be told
# everything: as far away as RabbitMQ's ports are from 5672.
FOLLOWING_PORTS = {
    "listen.stream_port": 5552 - 5672,
    "listen.management_port": 15672 - 5672,
    "listen.metrics_port": 15692 - 5672,
}

# Ten years, as for the argument x-consumer-timeout.
ACK_TIMEOUT_MS_MAX = 10 * 365 * 24 * 60 * 60 * 1000


class ListenSettings(Section, frozen=True):
    """[listen] where clients connect"""

    host: Annotated[str, said('Address to listen on: one; "0.0.0.0" for all of IPv4, "::" for all.', flag="--host")] = (
        "127.0.0.1"
    )
    port: Annotated[Port, said("Port for AMQP, 0 for any free one.", flag="--port", wanted=PORT_WANTED)] = 5672
    tls_port: Annotated[
        PortOrOff,
        said('Port for AMQP over TLS, usually 5671; "off" for none.', flag="--tls-port", wanted=PORT_OR_OFF_WANTED),
    ] = "off"
    stream_port: Annotated[
        PortOrOff,
        said(
            'Port for the stream protocol, "off" for none; unless it is set, 120 below `listen.port`.',
            flag="--stream-port",
            wanted=PORT_OR_OFF_WANTED,
        ),
    ] = 5552
    stream_tls_port: Annotated[
        PortOrOff,
        said('Port for the stream protocol over TLS, usually 5551; "off" for none.', wanted=PORT_OR_OFF_WANTED),
    ] = "off"
    management_port: Annotated[
        PortOrOff,
        said(
            'Port for the management API, "off" for none; unless it is set, 10000 above `listen.port`.',
            flag="--management-port",
            wanted=PORT_OR_OFF_WANTED,
        ),
    ] = 15672
    management_tls: Annotated[
        bool, said("Whether the management API speaks HTTPS, with the certificate of `[tls]`.")
    ] = False
    metrics_port: Annotated[
        PortOrOff,
        said(
            'Port for Prometheus metrics, "off" for none; unless it is set, 10020 above `listen.port`.',
            flag="--metrics-port",
            wanted=PORT_OR_OFF_WANTED,
        ),
    ] = 15692
    metrics_tls: Annotated[bool, said("Whether metrics are served by HTTPS, as `[tls]` says.")] = False
    socket: Annotated[
        str,
        said(
            'Unix socket for the command line on this machine, "off" for none; empty for `leveret.sock` in the data '
            "directory."
        ),
    ] = ""

    @property
    def chosen_stream_port(self) -> int | None:
        """None if the stream protocol is not spoken."""
        return None if self.stream_port == "off" else int(self.stream_port)


class TlsSettings(Section, frozen=True):
    """[tls] the certificate of this node, and what is asked of clients"""

    certificate: Annotated[
        str, said("File with the certificate of this node and those between it and the authority, PEM.", live=True)
    ] = ""
    key: Annotated[str, said("File with the private key of the certificate, PEM.", live=True)] = ""
    key_password: Annotated[Secret, said("Passphrase of the private key, if it has one.", live=True)] = Secret("")
    ca: Annotated[
        str, said("File with the certificates of the authorities that clients' certificates come from, PEM.", live=True)
    ] = ""
    verify: Annotated[
        Literal["none", "optional", "required"],
        said("Whether clients are asked for a certificate, and refused without one.", live=True),
    ] = "none"
    version_min: Annotated[Literal["1.2", "1.3"], said("The oldest version of TLS that is spoken.", live=True)] = "1.2"
    ciphers: Annotated[
        str, said("Cipher suites of TLS 1.2, as OpenSSL writes them; empty for those that OpenSSL prefers.", live=True)
    ] = ""


class LimitSettings(Section, frozen=True):
    """[limits] how much a client may send or ask for, and how many clients there may be"""

    frame_max: Annotated[
        int, said("Largest frame that a client may agree on, bytes.", ge=8192, le=16 * 1024 * 1024, live=True)
    ] = 131072
    channel_max: Annotated[int, said("Open channels of one connection.", ge=1, le=65535, live=True)] = 2047
    connections_max: Annotated[
        int, said("Open connections of this node, 0 for no limit.", ge=0, le=2**31, live=True)
    ] = 0
    channels_max: Annotated[
        int, said("Open channels of this node, all connections together, 0 for no limit.", ge=0, le=2**31, live=True)
    ] = 0
    heartbeat_s: Annotated[
        int, said("Interval of heartbeats that is offered; the client decides, 0 for none.", ge=0, le=65535, live=True)
    ] = 60
    body_bytes_max: Annotated[int, said("Largest message, bytes.", ge=1, le=2**31, live=True)] = 134217728
    handshake_deadline_s: Annotated[
        float, said("How long a connection may take from accept to `connection.open`.", ge=0.1, le=3600, live=True)
    ] = 10.0
    ack_timeout_ms: Annotated[
        int,
        said(
            "How long a delivery may stay unacknowledged, unless its queue or consumer says; 0 for as long as the "
            "channel lives.",
            ge=0,
            le=ACK_TIMEOUT_MS_MAX,
            live=True,
        ),
    ] = 0
    ack_timeout_action: Annotated[
        Literal["requeue", "close"],
        said("What happens then: `requeue` the message, or `close` the channel with 406 as RabbitMQ does.", live=True),
    ] = "requeue"
