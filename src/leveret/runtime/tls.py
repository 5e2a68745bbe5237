"""The node's own certificate: from files to an SSL context, and to a new one when the files have changed.

Whoever accepts connections asks `ServerCertificates.context` for each of them, so that new ones get the new certificate
while old ones live on. Bad files never replace good ones."""

from __future__ import annotations

import datetime
import ssl
from dataclasses import dataclass
from typing import Literal

from leveret.errors import ConfigError
from leveret.runtime.certificate import Certificate, read_certificates
from leveret.runtime.log import get_logger
from leveret.runtime.secret import Secret

log = get_logger(__name__)

# For TLS 1.2: only what keeps old recordings secret when the key gets known, and is not broken by its padding. TLS 1.3
# has nothing else anyway.
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM:DHE+CHACHA20:!aNULL"
_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


@dataclass(frozen=True, kw_only=True)
class TlsOptions:
    """What [tls] says. The files are PEM; `certificate` has the chain up to the root, without it or with it."""

    certificate: str
    # Empty: it is in the same file.
    key: str = ""
    key_password: Secret = Secret("")
    # Whose signature a client's certificate must have.
    ca: str = ""
    verify: Literal["none", "optional", "required"] = "none"
    version_min: Literal["1.2", "1.3"] = "1.2"
    ciphers: str = ""


class ServerCertificates:
    """The context for new connections. Raises ConfigError, which names the file, if it cannot be made."""

    def __init__(self, options: TlsOptions) -> None:
        self._options = options
        self._context, self._certificate = _load(options)
        self._warn()
        self._front: ssl.SSLContext | None = None

    @property
    def context(self) -> ssl.SSLContext:
        """For the next connection; not to be kept."""
        return self._context

    @property
    def front(self) -> ssl.SSLContext:
        """For servers that keep the context they were started with, such as those of asyncio: each handshake is turned
        over to the context of the moment. Whether clients must show a certificate stays as it was at first."""
        if self._front is None:
            self._front, _ = _load(self._options)
            self._front.sni_callback = self._turn_over
        return self._front

    def _turn_over(self, connection: ssl.SSLObject, name: str | None, front: ssl.SSLContext) -> None:
        connection.context = self._context

    @property
    def subject(self) -> str:
        return self._certificate.subject

    @property
    def not_after(self) -> datetime.datetime:
        """When the certificate of this node ends."""
        return self._certificate.not_after

    def reload(self, options: TlsOptions | None = None) -> None:
        """Reads the files again, or others; if anything is wrong with them all stays as it is."""
        chosen = options or self._options
        self._context, self._certificate = _load(chosen)
        self._options = chosen
        self._warn()

    def _warn(self) -> None:
        """A certificate that has ended is used nevertheless: some clients do not look, and no broker helps nobody."""
        if self.not_after < datetime.datetime.now(datetime.UTC):
            log.warning(
                "the certificate has ended", file=self._options.certificate, not_after=self.not_after.isoformat()
            )


def _load(options: TlsOptions) -> tuple[ssl.SSLContext, Certificate]:
    certificate = _read_certificates(options.certificate, "tls.certificate")[0]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[options.version_min]
    # Compression gives secrets away (CRIME), renegotiation costs the server more than the client.
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    try:
        context.set_ciphers(options.ciphers or CIPHERS)
    except ssl.SSLError:
        raise ConfigError(f"tls.ciphers is {options.ciphers!r}; OpenSSL knows no such cipher") from None
    _load_key(context, options)
    _ask_clients(context, options)
    return context, certificate


def _load_key(context: ssl.SSLContext, options: TlsOptions) -> None:
    key = options.key or options.certificate
    _read(key, "tls.key")
    asked = False

    def password() -> bytes:
        # Without this OpenSSL would ask whoever sits at the terminal.
        nonlocal asked
        asked = True
        return options.key_password.reveal().encode()

    try:
        context.load_cert_chain(options.certificate, key, password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(f"tls.key: {key} is not the key of {options.certificate}") from None
        if asked and not options.key_password:
            raise ConfigError(f"tls.key: {key} is encrypted; say its password in tls.key_password_file") from None
        if asked:
            raise ConfigError(f"tls.key: {key} cannot be decrypted with tls.key_password") from None
        reason = f" ({_reason(error)})" if error.reason else ""
        raise ConfigError(
            f"tls.key: {key} has no private key in PEM that fits {options.certificate}{reason}"
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"tls.key: {key} cannot be used: {error}") from None


def _ask_clients(context: ssl.SSLContext, options: TlsOptions) -> None:
    """Whether clients must show a certificate, and whose."""
    if options.verify == "none":
        return
    if not options.ca:
        raise ConfigError(f'tls.ca is empty; with tls.verify = "{options.verify}" it names who signs for clients')
    _read_certificates(options.ca, "tls.ca")
    try:
        context.load_verify_locations(cafile=options.ca)
    except (OSError, ValueError) as error:
        raise ConfigError(f"tls.ca: {options.ca} cannot be used: {error}") from None
    context.verify_mode = _VERIFY[options.verify]
    # A ticket would let a client in again without its certificate being looked at, when that has ended by then.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0


def _read_certificates(path: str, setting: str) -> list[Certificate]:
    pem = _read(path, setting)
    try:
        return read_certificates(pem)
    except ValueError as error:
        raise ConfigError(f"{setting}: {path} has no certificate in PEM that can be read: {error}") from None


def _read(path: str, setting: str) -> bytes:
    if not path:
        raise ConfigError(f"{setting} is empty; TLS needs that file")
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"{setting}: cannot read {path}: {error.strerror}") from None


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
