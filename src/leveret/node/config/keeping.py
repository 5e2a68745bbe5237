"""The sections about messages: how they are routed and kept, when publishers are held up, and dead letters."""

from typing import Annotated, Literal

import msgspec

from leveret.node.config.declaring import Port, Section, said
from leveret.runtime.secret import Secret

# 1 PiB, exact as a float too.
BYTES_MOST = 2**50
# Ten years.
SECONDS_MOST = 10 * 365 * 24 * 3600
# A watermark such as 40 is a mistaken percentage: what is meant in bytes is more than this.
MEMORY_WATERMARK_BYTES_LEAST = 1024 * 1024
PORT_ADVERTISED = "a port is 1 to 65535, 0 for the one to which clients came"


class RoutingSettings(Section, frozen=True):
    """[routing] behaviour of exchanges"""

    headers_ignore_x: Annotated[
        bool,
        said(
            "Whether headers exchanges ignore binding arguments that begin with `x-`, as RabbitMQ does unless "
            "`x-match` is `all-with-x` or `any-with-x`. The exchange argument `x-headers-ignore-x` takes "
            "precedence."
        ),
    ] = False


class StorageSettings(Section, frozen=True):
    """[storage] storage of messages on disk"""

    segment_bytes: Annotated[
        int, said("Size of one segment file of the message log.", ge=64 * 1024, le=512 * 1024 * 1024)
    ] = 16 * 1024 * 1024
    sync: Annotated[
        bool,
        said("`false` confirms messages that are written but not synced: a power failure can lose confirmed messages."),
    ] = True


class StreamSettings(Section, frozen=True):
    """[streams] storage of streams on disk, and the addresses advertised to stream clients"""

    segment_bytes_min: Annotated[
        int,
        said(
            "Minimum size of a stream's segment files, whatever its arguments and policies say, because each "
            "takes a file descriptor.",
            ge=1,
            le=500_000_000,
        ),
    ] = 1024 * 1024
    advertised_host: Annotated[
        str,
        said(
            "Host that clients of the stream protocol are told to connect to, such as that of a proxy or of a "
            "container's host; empty for the address through which they connected.",
            live=True,
        ),
    ] = ""
    advertised_port: Annotated[
        Port,
        said(
            "Port for `advertised_host`; 0 for the port through which they connected.",
            live=True,
            wanted=PORT_ADVERTISED,
        ),
    ] = 0
    advertised_tls_host: Annotated[
        str,
        said(
            "The same for clients that use TLS, such as the name in the certificate; empty for `advertised_host`.",
            live=True,
        ),
    ] = ""
    advertised_tls_port: Annotated[
        Port,
        said(
            "Port for `advertised_tls_host`; 0 for the port through which they connected.",
            live=True,
            wanted=PORT_ADVERTISED,
        ),
    ] = 0


class AlarmSettings(Section, frozen=True):
    """[alarms] thresholds at which publishers are blocked"""

    memory_watermark: Annotated[
        float,
        said(
            "Memory use at which publishers are blocked: up to 1, a fraction of the memory of the machine or "
            "cgroup; above 1, bytes.",
            live=True,
            wanted="it must be a part of the memory, above 0 up to 1, "
            f"or bytes from {MEMORY_WATERMARK_BYTES_LEAST} to {BYTES_MOST}",
        ),
    ] = 0.4
    disk_free_bytes_min: Annotated[
        int,
        said(
            "Free space on the disk of `data_dir` below which publishers are blocked; 0 for no alarm.",
            ge=0,
            le=BYTES_MOST,
            live=True,
            wanted=f"it must be from 0 to {BYTES_MOST}, 0 for no alarm",
        ),
    ] = 64 * 1024 * 1024


class WebhookSettings(Section, frozen=True):
    """[dead_letters.webhook] alerts when dead letters are archived, or cannot be archived"""

    urls: Annotated[
        Secret,
        said(
            "Addresses to which alerts are posted, separated by spaces or line breaks; `https:` except for "
            "the local machine. Empty for none.",
            live=True,
        ),
    ] = Secret()
    template: Annotated[
        Literal["auto", "generic", "pagerduty", "slack"],
        said("Format of the alerts: `auto` chooses by the address, `generic` is Leveret's own JSON.", live=True),
    ] = "auto"
    secret: Annotated[
        Secret, said("Key of the signature in `X-Leveret-Signature` (HMAC-SHA256); empty for none.", live=True)
    ] = Secret()
    pagerduty_routing_key: Annotated[
        Secret, said("Integration key of the service in PagerDuty (Events API v2).", live=True)
    ] = Secret()
    ca: Annotated[
        str,
        said("File with the certificate authority of the servers, PEM; empty for those of the system.", live=True),
    ] = ""
    attempts_max: Annotated[
        int, said("Maximum number of attempts per alert and address.", ge=1, le=1000, live=True)
    ] = 10
    pause_s: Annotated[
        float,
        said(
            "Pause after the first failed attempt; it doubles with each attempt, up to 5 minutes.",
            ge=0.01,
            le=300,
            live=True,
        ),
    ] = 1.0
    deadline_s: Annotated[float, said("Time limit for one attempt.", ge=0.1, le=300, live=True)] = 10.0


class DeadLetterSettings(Section, frozen=True):
    """[dead_letters] scheduled retries of dead letters, and their archive"""

    queues: Annotated[
        tuple[str, ...],
        said(
            "Name patterns of dead-letter queues in the virtual host `/`, or `vhost/pattern`; the whole name "
            "must match. Empty to retry none.",
            live=True,
        ),
    ] = ()
    every_s: Annotated[float, said("Interval between retries.", ge=0.05, le=SECONDS_MOST, live=True)] = 3600.0
    archive_after_s: Annotated[
        float,
        said(
            "Age after which dead letters that keep failing are archived; 0 for never.",
            ge=0,
            le=SECONDS_MOST,
            live=True,
        ),
    ] = 86400.0
    archive_exchange: Annotated[str, said("Exchange to which archived dead letters are published.", live=True)] = ""
    archive_queue: Annotated[
        str,
        said(
            "Routing key for `archive_exchange`; with the default exchange, the queue of this name, which is "
            "created if it does not exist.",
            live=True,
        ),
    ] = "leveret.archive"
    archive_dir: Annotated[
        str,
        said(
            "Directory, such as a mounted bucket, to which the archive is written as JSON lines; empty to use "
            "the exchange and queue above.",
            live=True,
        ),
    ] = ""
    schedules: Annotated[
        dict[str, str],
        said(
            "Patterns as in `queues`, each with its own interval and optionally the age for the archive: "
            '`"30min"`, `"30min, 12h"`, `"off"`. They take precedence over `queues`; policies and parameters '
            "take precedence over them.",
            live=True,
        ),
    ] = msgspec.field(default_factory=dict)
    webhook: WebhookSettings = WebhookSettings()
