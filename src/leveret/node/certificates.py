"""From the section [tls] to the certificates that the node's doors use."""

from __future__ import annotations

from leveret.node.config.network import TlsSettings
from leveret.node.config.settings import Settings
from leveret.runtime.tls import ServerCertificates, TlsOptions


def load_certificates(settings: Settings) -> ServerCertificates | None:
    """None if nothing of this node speaks TLS; raises ConfigError if something does and its files are no good."""
    listen = settings.listen
    speaks = listen.tls_port != "off" or listen.stream_tls_port != "off"
    if not speaks and not listen.management_tls and not listen.metrics_tls:
        return None
    return ServerCertificates(tls_options(settings.tls))


def tls_options(chosen: TlsSettings) -> TlsOptions:
    return TlsOptions(
        certificate=chosen.certificate,
        key=chosen.key,
        key_password=chosen.key_password,
        ca=chosen.ca,
        verify=chosen.verify,
        version_min=chosen.version_min,
        ciphers=chosen.ciphers,
    )
