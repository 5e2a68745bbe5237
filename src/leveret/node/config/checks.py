"""What no type can say: checks of single settings that need code, and of settings that need each other."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING

from leveret.core.codec.names import NAME_OCTETS_MAX
from leveret.node.config.access import AuthSettings
from leveret.node.config.declaring import declarations
from leveret.node.config.keeping import (
    BYTES_MOST,
    MEMORY_WATERMARK_BYTES_LEAST,
    AlarmSettings,
    DeadLetterSettings,
    WebhookSettings,
)
from leveret.node.config.network import CLIENT_DOORS, DOORS
from leveret.node.config.settings import Settings

if TYPE_CHECKING:
    from leveret.node.config.loading import Loaded

# As catalog.passwords, which small commands have no need of.
PASSWORD_BYTES_MAX = 1024
# What the kernel takes for the path of a unix socket, without the octet at its end.
SOCKET_PATH_OCTETS_MAX = 107
NODE_NAME = re.compile(r"[\w.+-]+@[\w.:+-]+", re.ASCII)

# The key to blame, and what is wrong.
Problem = tuple[str, str]


def check(settings: Settings) -> Iterator[Problem]:
    if settings.node_name and not NODE_NAME.fullmatch(settings.node_name):
        yield "node_name", f"node_name is {settings.node_name!r}; it must be like leveret@host"
    yield from _check_name("cluster_name", settings.cluster_name)
    yield from _check_listen(settings)
    yield from _check_tls(settings)
    yield from _check_auth(settings.auth)
    yield from _check_alarms(settings.alarms)
    yield from _check_dead_letters(settings.dead_letters)


def _check_listen(settings: Settings) -> Iterator[Problem]:
    listen = settings.listen
    if not listen.host:
        yield "listen.host", 'listen.host is empty; say "0.0.0.0" or "::" to listen on every address'
    octets = len(os.fsencode(listen.socket))
    if octets > SOCKET_PATH_OCTETS_MAX:
        yield "listen.socket", f"listen.socket has {octets} bytes; a socket's path has at most {SOCKET_PATH_OCTETS_MAX}"
    if not any(listen.door(name) for name in CLIENT_DOORS):
        yield "listen.port", 'listen.port is "off", and so are all other ports for clients; nobody could connect'
    yield from _check_networks("listen.proxy_networks", listen.proxy_networks)
    taken: list[tuple[str, str, int]] = []
    for name in DOORS:
        door = listen.door(name)
        if door is None or not door[1]:
            continue
        host, port = door
        others = [other for other, where, number in taken if number == port and _meet(where, host)]
        if others:
            yield f"listen.{name}port", f"listen.{name}port is {port}, which is also listen.{others[0]}port"
        taken.append((name, host, port))


def _check_networks(key: str, networks: tuple[str, ...]) -> Iterator[Problem]:
    for network in networks:
        try:
            ipaddress.ip_network(network)
        except ValueError as error:
            yield key, f"{key} has {network!r}, which is no network such as 10.0.0.0/28: {error}"


def _meet(one: str, other: str) -> bool:
    """Whether both cannot have the same port."""
    return one == other or bool({one, other} & {"0.0.0.0", "::"})


def _check_tls(settings: Settings) -> Iterator[Problem]:
    listen, tls = settings.listen, settings.tls
    wanted = [name for name in ("tls_port", "stream_tls_port") if getattr(listen, name) != "off"]
    wanted += [name for name in ("management_tls", "metrics_tls") if getattr(listen, name)]
    for name in wanted:
        if not tls.certificate:
            yield f"listen.{name}", f"listen.{name} needs a certificate; set tls.certificate and tls.key"
    if tls.certificate and not tls.key:
        yield "tls.certificate", "tls.certificate is set, but tls.key is not"
    if tls.key and not tls.certificate:
        yield "tls.key", "tls.key is set, but tls.certificate is not"
    if tls.verify != "none" and not tls.ca:
        yield "tls.verify", f"tls.verify is {tls.verify!r}; set tls.ca, whose authorities clients are judged by"


def _check_auth(auth: AuthSettings) -> Iterator[Problem]:
    if not auth.mechanisms:
        yield "auth.mechanisms", "auth.mechanisms is empty; nobody could log in"
    if auth.default_user and not auth.default_password:
        yield "auth.default_password", "auth.default_password is empty; set it, or set auth.default_user to nothing"
    if len(auth.default_password.reveal().encode("utf-8", "surrogatepass")) > PASSWORD_BYTES_MAX:
        yield "auth.default_password", f"auth.default_password has more than {PASSWORD_BYTES_MAX} bytes"
    yield from _check_name("auth.default_user", auth.default_user, may_be_empty=True)
    yield from _check_name("auth.default_vhost", auth.default_vhost)
    tokens = auth.tokens
    if re.search(r"//[^/?#]*@", tokens.jwks_url):
        # Not repeated, and not taken: it would stand in the log and in what `config show` prints.
        yield "auth.tokens.jwks_url", "auth.tokens.jwks_url holds a user or a password; public keys need none"
    elif tokens.jwks_url and not re.match(r"https://[^/\s]", tokens.jwks_url):
        yield "auth.tokens.jwks_url", f"auth.tokens.jwks_url is {tokens.jwks_url!r}; it must begin with https://"
    if tokens.enabled:
        if not tokens.keys and not tokens.jwks_url:
            yield "auth.tokens.enabled", "auth.tokens.enabled needs keys; set auth.tokens.keys or auth.tokens.jwks_url"
        if not tokens.audience:
            yield (
                "auth.tokens.enabled",
                "auth.tokens.enabled needs auth.tokens.audience; else any token would do",
            )
        for name in ("algorithms", "name_claims"):
            if not getattr(tokens, name):
                yield f"auth.tokens.{name}", f"auth.tokens.{name} is empty; no token could be used"


def _check_alarms(alarms: AlarmSettings) -> Iterator[Problem]:
    watermark = alarms.memory_watermark
    if not (0 < watermark <= 1 or MEMORY_WATERMARK_BYTES_LEAST <= watermark <= BYTES_MOST):
        key = "alarms.memory_watermark"
        yield key, f"{key} is {watermark:g}; {declarations()[key].wanted}"


def _check_dead_letters(chosen: DeadLetterSettings) -> Iterator[Problem]:
    if chosen.queues or chosen.schedules:
        # Brings the broker with it, which `leveret config show` has no need of otherwise.
        from leveret.operations.reprocess.timing import Timing, parse_choice, parse_timing

        for text in chosen.queues:
            try:
                parse_choice(text)
            except ValueError as error:
                key = "dead_letters.queues"
                yield key, f"{key} has {text!r}, which is no pattern of queues: {error}"
        for text, when in chosen.schedules.items():
            key = "dead_letters.schedules"
            try:
                parse_choice(text)
                parse_timing(when, Timing(0, 0))
            except ValueError as error:
                yield key, f'{key} has {text!r} = {when!r}, which is no pattern with times such as "1h, 24h": {error}'
    yield from _check_webhook(chosen.webhook)
    if not chosen.archive_queue or chosen.archive_queue.startswith("amq."):
        key = "dead_letters.archive_queue"
        yield key, f"{key} is {chosen.archive_queue!r}; it must be the name of a queue"
    for name in ("archive_exchange", "archive_queue"):
        yield from _check_name(f"dead_letters.{name}", getattr(chosen, name), may_be_empty=True)


def _check_webhook(chosen: WebhookSettings) -> Iterator[Problem]:
    """Addresses may hold tokens: they are not repeated."""
    if not chosen.urls:
        return
    # As above.
    from leveret.operations.webhooks.templates import PAGERDUTY, template_for
    from leveret.runtime.https import is_allowed

    key = "dead_letters.webhook.urls"
    urls = chosen.urls.reveal().split()
    if not all(is_allowed(url) for url in urls):
        yield key, f"{key} has an address that begins neither with https:// nor with http:// and this machine"
    if PAGERDUTY in {template_for(url, chosen.template) for url in urls} and not chosen.pagerduty_routing_key:
        name = "dead_letters.webhook.pagerduty_routing_key"
        yield name, f"{name} is empty; it is the integration key of the service in PagerDuty"


def check_files(loaded: Loaded) -> Iterator[str]:
    """Files that the node would not be able to read when it starts, each with who named it."""
    settings = loaded.settings
    named = [(f"tls.{name}", getattr(settings.tls, name)) for name in ("certificate", "key", "ca")]
    named += [("auth.tokens.keys", path) for path in settings.auth.tokens.keys.values()]
    named += [("auth.tokens.jwks_ca", settings.auth.tokens.jwks_ca), ("definitions.path", settings.definitions.path)]
    for key, path in named:
        if path and not os.access(path, os.R_OK):
            reason = "cannot be read" if os.path.exists(path) else "does not exist"
            place = loaded.origins[key]
            yield f"{place}: {key} has {path!r}, which {reason}"


def exposed_files(loaded: Loaded) -> Iterator[str]:
    """Files of settings that have a secret in them and that everybody on this machine can read."""
    for key, path in loaded.secrets.items():
        with contextlib.suppress(OSError):
            if os.stat(path).st_mode & stat.S_IROTH:
                yield f"{path} has {key}, and everybody on this machine can read it; run `chmod o-r {path}`"


def _check_name(key: str, name: str, may_be_empty: bool = False) -> Iterator[Problem]:
    if not name and not may_be_empty:
        yield key, f"{key} is empty"
    if len(name.encode("utf-8", "replace")) > NAME_OCTETS_MAX:
        yield key, f"{key} is longer than {NAME_OCTETS_MAX} bytes"
