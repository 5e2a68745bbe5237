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
    """[auth.tokens] logins with a JSON Web Token, as OAuth 2 providers give them, in the place of the password"""

    enabled: Annotated[bool, said("Whether tokens are taken.", live=True)] = False
    issuer: Annotated[str, said("What a token's `iss` must be; empty for any.", live=True)] = ""
    audience: Annotated[str, said("What a token's `aud` must have.", live=True)] = ""
    keys: Annotated[
        dict[str, str], said("Public keys to check signatures with: key id (`kid`) and file, PEM.", live=True)
    ] = msgspec.field(default_factory=dict)
    jwks_url: Annotated[
        str, said("Where the provider publishes its keys (JWKS), `https:`; empty for none.", live=True)
    ] = ""
    jwks_ca: Annotated[
        str,
        said("File with the authority of its certificate, PEM; empty for those of the system.", live=True),
    ] = ""
    algorithms: Annotated[tuple[Algorithm, ...], said("Signatures that are taken.", live=True)] = ("RS256", "ES256")
    scope_prefix: Annotated[
        str, said("What scopes for this broker begin with, as in `rabbitmq.read:*/*`.", live=True)
    ] = "rabbitmq."
    name_claims: Annotated[
        tuple[str, ...], said("Claims that name the user; the first that a token has counts.", live=True)
    ] = ("preferred_username", "sub")
    leeway_s: Annotated[
        float, said("By how much the provider's clock may differ from ours.", ge=0, le=300, live=True)
    ] = 5.0


class AuthSettings(Section, frozen=True):
    """[auth] who may log in, from where and how"""

    loopback_users: Annotated[tuple[str, ...], said("Users who may log in only from this machine.", live=True)] = (
        "guest",
    )
    mechanisms: Annotated[
        tuple[Literal["PLAIN", "AMQPLAIN", "EXTERNAL"], ...],
        said("SASL mechanisms that are offered; `EXTERNAL` logs in with a client certificate."),
    ] = ("PLAIN", "AMQPLAIN")
    external_name: Annotated[
        Literal["cn", "dn", "san_dns", "san_email", "san_uri"],
        said("Which name of a client's certificate is the user's."),
    ] = "cn"
    default_user: Annotated[str, said("User of a fresh broker, an administrator with all rights; empty for none.")] = (
        "guest"
    )
    default_password: Annotated[Secret, said("Password of that user.")] = Secret("guest")
    default_vhost: Annotated[str, said("Virtual host of a fresh broker.")] = "/"
    failures_max: Annotated[
        int,
        said(
            "Failed logins of an address as a user before each further try has to wait a second.",
            ge=1,
            le=1_000_000,
            live=True,
        ),
    ] = 5
    password_hash: Annotated[
        Literal["argon2id", "rabbit_sha256", "rabbit_sha512"],
        said("How new passwords are kept; those of RabbitMQ are for definitions that are to go back there."),
    ] = "argon2id"
    tokens: TokenSettings = TokenSettings()


class ManagementSettings(Section, frozen=True):
    """[management] the HTTP API"""

    body_bytes_max: Annotated[
        int, said("Largest body of a request: definitions and messages, bytes.", ge=1024, le=2**31, live=True)
    ] = 20 * 1024 * 1024
    small_body_bytes_max: Annotated[
        int, said("Largest body of all other requests, bytes.", ge=1024, le=2**31, live=True)
    ] = 64 * 1024
    lease_s: Annotated[
        float, said("How long a message that was got by HTTP waits for its acknowledgement.", ge=1, le=86400, live=True)
    ] = 30.0
    root_aliases: Annotated[
        bool, said("Whether `/queues`, `/exchanges` and `/bindings` are there without `/api` before them, too.")
    ] = False
    session_s: Annotated[float, said("How long a login in the browser lasts.", ge=60, le=SECONDS_MOST, live=True)] = (
        28800.0
    )
    audit_bytes_max: Annotated[
        int, said("How much of the log of changes is kept, bytes; 0 for none.", ge=0, le=2**50, live=True)
    ] = 64 * 1024 * 1024
    sample_interval_s: Annotated[
        float, said("How often counters are sampled for rates and charts.", ge=0.1, le=3600)
    ] = 5.0


class DefinitionSettings(Section, frozen=True):
    """[definitions] what is imported at every start"""

    path: Annotated[str, said("File with definitions, JSON as RabbitMQ's, or a directory of them; empty for none.")] = (
        ""
    )
    skip_if_unchanged: Annotated[bool, said("Whether a file that was imported before is left alone.")] = True
