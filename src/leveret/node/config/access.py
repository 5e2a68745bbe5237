"""The sections about who may come in, and how others look after this node."""

from typing import Annotated, Literal

import msgspec

from leveret.node.config.declaring import Section, said
from leveret.runtime.secret import Secret

# Ten years.
SECONDS_MOST = 10 * 365 * 24 * 3600

# Signatures with a public key only: a shared secret would let whoever checks tokens make them as well.
Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]  # fmt: skip


class TokenSettings(Section, frozen=True):
    """[auth.tokens] logins with a JSON Web Token of an OAuth 2 provider in place of the password"""

    enabled: Annotated[bool, said("Whether tokens are accepted.", live=True)] = False
    issuer: Annotated[str, said("Required value of a token's `iss`; empty for any.", live=True)] = ""
    audience: Annotated[str, said("Value that a token's `aud` must contain.", live=True)] = ""
    keys: Annotated[
        dict[str, str], said("Public keys for verifying signatures: key id (`kid`) and file, PEM.", live=True)
    ] = msgspec.field(default_factory=dict)
    jwks_url: Annotated[
        str, said("Address at which the provider publishes its keys (JWKS), `https:`; empty for none.", live=True)
    ] = ""
    jwks_ca: Annotated[
        str,
        said("File with the certificate authority of that address, PEM; empty for those of the system.", live=True),
    ] = ""
    algorithms: Annotated[tuple[Algorithm, ...], said("Accepted signature algorithms.", live=True)] = ("RS256", "ES256")
    scope_prefix: Annotated[str, said("Prefix of scopes for this broker, as in `rabbitmq.read:*/*`.", live=True)] = (
        "rabbitmq."
    )
    name_claims: Annotated[
        tuple[str, ...], said("Claims that contain the user name; the first one present in a token is used.", live=True)
    ] = ("preferred_username", "sub")
    leeway_s: Annotated[
        float, said("Allowed difference between the provider's clock and the broker's.", ge=0, le=300, live=True)
    ] = 5.0


class AuthSettings(Section, frozen=True):
    """[auth] authentication of users"""

    loopback_users: Annotated[tuple[str, ...], said("Users who can log in only from the local machine.", live=True)] = (
        "guest",
    )
    mechanisms: Annotated[
        tuple[Literal["PLAIN", "AMQPLAIN", "EXTERNAL"], ...],
        said("SASL mechanisms offered to clients; `EXTERNAL` logs in with a client certificate."),
    ] = ("PLAIN", "AMQPLAIN")
    external_name: Annotated[
        Literal["cn", "dn", "san_dns", "san_email", "san_uri"],
        said("Which name in a client certificate is the user name."),
    ] = "cn"
    default_user: Annotated[
        str, said("User created on a new broker, an administrator with all permissions; empty for none.")
    ] = "guest"
    default_password: Annotated[
        Secret,
        said(
            "Password of that user. A change of this setting takes effect at the next start or reload; a "
            "password that was changed by other means stays until this setting changes.",
            live=True,
        ),
    ] = Secret("guest")
    default_vhost: Annotated[str, said("Virtual host created on a new broker.")] = "/"
    failures_max: Annotated[
        int,
        said(
            "Failed logins of a user from an address before each further attempt has to wait a second.",
            ge=1,
            le=1_000_000,
            live=True,
        ),
    ] = 5
    password_hash: Annotated[
        Literal["argon2id", "rabbit_sha256", "rabbit_sha512"],
        said("Hash algorithm for new passwords; use RabbitMQ's if definitions are to be imported into RabbitMQ."),
    ] = "argon2id"
    damaged_catalog: Annotated[
        Literal["suspend", "accept"],
        said(
            "What to do at startup if the catalog has lost commands, so that revoked permissions may be in "
            "effect again: `suspend` all users until `leveret users release`, or `accept` it."
        ),
    ] = "suspend"
    tokens: TokenSettings = TokenSettings()


class ManagementSettings(Section, frozen=True):
    """[management] the HTTP API"""

    body_bytes_max: Annotated[
        int, said("Maximum size of request bodies with definitions or messages, bytes.", ge=1024, le=2**31, live=True)
    ] = 20 * 1024 * 1024
    small_body_bytes_max: Annotated[
        int, said("Maximum size of all other request bodies, bytes.", ge=1024, le=2**31, live=True)
    ] = 64 * 1024
    bodies_bytes_max: Annotated[
        int,
        said(
            "Maximum total size of the request bodies being processed, bytes; one user can take at most half. "
            "Beyond it, requests get 503 with `Retry-After`.",
            ge=2**20,
            le=2**40,
            live=True,
        ),
    ] = 64 * 1024 * 1024
    answers_bytes_max: Annotated[
        int,
        said(
            "Maximum total size of responses that have not been sent yet, bytes; one user can take at most "
            "half. Beyond it, requests get 503 with `Retry-After`, and lists of messages are truncated.",
            ge=2**20,
            le=2**40,
            live=True,
        ),
    ] = 128 * 1024 * 1024
    header_deadline_s: Annotated[
        float, said("Time limit for receiving the head of a request.", ge=0.1, le=3600, live=True)
    ] = 10.0
    write_deadline_s: Annotated[
        float,
        said(
            "Time limit for a client to read a response, plus a second for every 64 KiB of it; then its "
            "connection is closed.",
            ge=0.1,
            le=3600,
            live=True,
        ),
    ] = 30.0
    connections_per_address_max: Annotated[
        int,
        said(
            "Maximum number of connections per address to the API, and to the metrics: a new connection "
            "closes an idle one of the same address, or is closed. Behind a proxy outside of "
            "`listen.proxy_networks`, the limit applies to all its clients together.",
            ge=4,
            le=2**20,
            live=True,
        ),
    ] = 500
    lease_s: Annotated[
        float, said("How long a message fetched over HTTP waits for its acknowledgement.", ge=1, le=86400, live=True)
    ] = 30.0
    root_aliases: Annotated[
        bool,
        said(
            "Whether `/queues`, `/exchanges` and `/bindings` are also available without the prefix `/api`, "
            "with the responses of [http-messages.md](http-messages.md#paths-without-api)."
        ),
    ] = True
    session_s: Annotated[float, said("How long a browser login lasts.", ge=60, le=SECONDS_MOST, live=True)] = 28800.0
    audit_bytes_max: Annotated[
        int, said("Maximum size of the audit log, bytes; 0 for none.", ge=0, le=2**50, live=True)
    ] = 64 * 1024 * 1024
    sample_interval_s: Annotated[
        float, said("How often counters are sampled for rates and charts.", ge=0.1, le=3600)
    ] = 5.0


class DefinitionSettings(Section, frozen=True):
    """[definitions] definitions imported at startup"""

    path: Annotated[
        str, said("File with definitions in RabbitMQ's JSON format, or a directory of such files; empty for none.")
    ] = ""
    skip_if_unchanged: Annotated[
        bool, said("Whether a file that was imported before and has not changed is skipped.")
    ] = True
