"""Keys about who may log in: the first user, users of this machine, mechanisms, back ends, tokens."""

from __future__ import annotations

from leveret.node.migrate.findings import Migration, Rule, direct, fine_if, harmless, missing, rule, truth
from leveret.node.migrate.rabbitmq_conf import Entry

MECHANISMS = ("PLAIN", "AMQPLAIN", "EXTERNAL")
_INTERNAL = ("internal", "rabbit_auth_backend_internal")
_OAUTH2 = ("oauth2", "oauth", "rabbit_auth_backend_oauth2")
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_CERTIFICATE_NAMES = {
    "common_name": "cn",
    "distinguished_name": "dn",
    "subject_alternative_name": "san_dns",
    "subject_alt_name": "san_dns",
}
_HASHES = {
    "rabbit_password_hashing_sha256": "rabbit_sha256",
    "rabbit_password_hashing_sha512": "rabbit_sha512",
}


def loopback_users(migration: Migration, entries: list[Entry]) -> None:
    """Those that are named and true are all: naming one takes guest off the list, as in RabbitMQ."""
    named = [entry for entry in entries if len(entry.parts) > 1]
    users = [".".join(entry.parts[1:]) for entry in named if entry.value == "true"]
    for entry in entries:
        if entry not in named and entry.value != "none":
            migration.refuse(entry, f"{entry.value!r} is not none")
        elif entry in named and entry.value not in ("true", "false"):
            migration.refuse(entry, f"{entry.value!r} is neither true nor false")
        else:
            migration.take(entry, "auth.loopback_users", users)


def mechanisms(migration: Migration, entries: list[Entry]) -> None:
    """In the order of their numbers."""
    chosen = [entry for entry in _in_order(entries) if entry.value in MECHANISMS]
    for entry in entries:
        if entry in chosen:
            migration.take(entry, "auth.mechanisms", [each.value for each in chosen])
        else:
            migration.refuse(entry, f"{entry.value} is not spoken; known are {', '.join(MECHANISMS)}")


def backends(migration: Migration, entries: list[Entry]) -> None:
    for entry in entries:
        if entry.value in _INTERNAL:
            migration.ignore(entry, "users of the broker itself can always log in")
        elif entry.value in _OAUTH2:
            migration.take(entry, "auth.tokens.enabled", True)
        else:
            migration.refuse(entry, f"nobody is asked by way of {entry.value}: its users cannot log in")


def certificate_names(migration: Migration, entries: list[Entry]) -> None:
    by_key = {entry.key: entry for entry in entries}
    source = by_key.get("ssl_cert_login_from")
    kind = by_key.get("ssl_cert_login_san_type")
    name = _CERTIFICATE_NAMES.get(source.value) if source is not None else "dn"
    if kind is not None and name == "san_dns":
        name = f"san_{kind.value}" if kind.value in ("dns", "email", "uri") else None
    for entry in entries:
        if entry.key == "ssl_cert_login_san_index":
            fine_if("0", "the first name of a kind counts")(migration, [entry])
        elif name is None:
            migration.refuse(entry, f"{entry.value!r} is no name that is taken from certificates here")
        else:
            migration.take(entry, "auth.external_name", name)


def password_hash(migration: Migration, entries: list[Entry]) -> None:
    for entry in entries:
        if entry.value in _HASHES:
            migration.take(entry, "auth.password_hash", _HASHES[entry.value], "argon2id would be safer")
        else:
            migration.refuse(entry, f"new passwords are not kept as {entry.value}; they are as argon2id")


# ---- tokens


def resource_server(migration: Migration, entries: list[Entry]) -> None:
    """What RabbitMQ calls itself towards the provider: whom tokens are for, and how scopes begin."""
    for entry in entries:
        migration.take(entry, "auth.tokens.audience", entry.value)
        if "auth.tokens.scope_prefix" not in migration.values:
            migration.set("auth.tokens.scope_prefix", entry.value + ".", "as RabbitMQ makes it of resource_server_id")


def signing_keys(migration: Migration, entries: list[Entry]) -> None:
    keys = {".".join(entry.parts[2:]): entry.value for entry in entries}
    for entry in entries:
        migration.take(entry, "auth.tokens.keys", keys)


def algorithms(migration: Migration, entries: list[Entry]) -> None:
    chosen = [entry for entry in _in_order(entries) if entry.value in _ALGORITHMS]
    for entry in entries:
        if entry in chosen:
            migration.take(entry, "auth.tokens.algorithms", [each.value for each in chosen])
        else:
            migration.refuse(entry, f"signatures by {entry.value} are not taken: only those with a public key are")


def name_claims(migration: Migration, entries: list[Entry]) -> None:
    claims = [entry.value for entry in _in_order(entries)]
    for entry in entries:
        # RabbitMQ falls back on these.
        migration.take(entry, "auth.tokens.name_claims", list(dict.fromkeys([*claims, "sub"])))


def _in_order(entries: list[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: (len(entry.parts[-1]), entry.parts[-1]))


_ONE_PROVIDER = "there is one provider of tokens; its users alone can log in with them"

PEOPLE: tuple[Rule, ...] = (
    rule("default_user", direct("auth.default_user", str)),
    rule("default_pass", direct("auth.default_password", str)),
    rule("default_vhost", direct("auth.default_vhost", str)),
    rule(
        "default_permissions.(configure|read|write)", fine_if(".*", "the first user may do everything; change it later")
    ),
    rule("default_user_tags.administrator", fine_if("true", "the first user is an administrator; change it later")),
    rule("default_user_tags.*", missing("the first user is an administrator and nothing else; change it later")),
    rule("loopback_users(.*)?", loopback_users),
    rule("auth_mechanisms.*", mechanisms),
    rule("auth_backends.*", backends),
    rule("ssl_cert_login_(from|san_type|san_index)", certificate_names),
    rule("stream.ssl_cert_login", harmless("auth.mechanisms counts for streams as well")),
    rule("password_hashing_module", password_hash),
    rule(
        "credential_validator.validation_backend",
        fine_if("rabbit_credential_validator_accept_everything", "passwords are not judged when they are set"),
    ),
    rule("credential_validator.*", missing("passwords are not judged when they are set")),
    rule("auth_oauth2.scope_prefix", direct("auth.tokens.scope_prefix", str)),
    rule("auth_oauth2.resource_server_id", resource_server),
    rule("auth_oauth2.issuer", direct("auth.tokens.issuer", str)),
    rule("auth_oauth2.jwks_ur[li]", direct("auth.tokens.jwks_url", str)),
    rule("auth_oauth2.https.cacertfile", direct("auth.tokens.jwks_ca", str)),
    rule("auth_oauth2.signing_keys.*", signing_keys),
    rule("auth_oauth2.algorithms.*", algorithms),
    rule("auth_oauth2.preferred_username_claims.*", name_claims),
    rule(
        "auth_oauth2.https.peer_verification", fine_if("verify_peer", "the provider's certificate is always verified")
    ),
    rule("auth_oauth2.https.fail_if_no_peer_cert", harmless("the provider's certificate is always verified")),
    rule("auth_oauth2.https.hostname_verification", harmless("names in certificates are compared as browsers do")),
    rule("auth_oauth2.https.depth", harmless("whole chains are verified")),
    rule("auth_oauth2.default_key", missing("a token must name its key (kid)")),
    rule("auth_oauth2.verify_aud", fine_if("true", "a token must be for this broker (aud)")),
    rule("auth_oauth2.(resource_servers|oauth_providers).*", missing(_ONE_PROVIDER)),
    rule("auth_oauth2.*", missing("tokens have their rights in `scope` alone")),
    rule("auth_(ldap|http|cache)*", missing("there is no such back end: its users cannot log in")),
    rule("trust_store.*", missing("put the authorities into the file that tls.ca names")),
    rule("anonymous_login_*", fine_if("none", "nobody comes in without a name and a password")),
    rule("definitions.skip_if_unchanged", direct("definitions.skip_if_unchanged", truth)),
)
