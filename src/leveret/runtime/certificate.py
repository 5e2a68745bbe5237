"""One X.509 certificate as people and logins see it: who, by whom, how long.

Only reads: whether a certificate is to be trusted has been decided by OpenSSL before anything here is asked. Names are
printed as RabbitMQ prints them, because users are called so there. One that could be taken for another is refused."""

from __future__ import annotations

import datetime
import unicodedata
from functools import cached_property
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from cryptography import x509

LoginName = Literal["cn", "dn", "san_dns", "san_email", "san_uri"]

# What RabbitMQ calls the parts of a name; all others go by their number.
_PARTS = {
    "2.5.4.3": "CN",
    "2.5.4.4": "SN",
    "2.5.4.5": "SERIALNUMBER",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.12": "TITLE",
    "2.5.4.42": "GIVENNAME",
    "2.5.4.43": "INITIALS",
    "2.5.4.44": "GENERATIONQUALIFIER",
    "2.5.4.65": "PSEUDONYM",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
    "1.2.840.113549.1.9.1": "EMAILADDRESS",
}
_COMMON_NAME = "2.5.4.3"
_ESCAPED = frozenset('"+,;<>\\')
# A user's name travels as a short string.
_NAME_OCTETS_MAX = 255
# What is not seen, or turns the direction of what is: control characters, formats, separators of lines, surrogates.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


class Certificate:
    """A certificate, read when it is first asked for anything. Every question raises ValueError with a reason if the
    certificate has no clear answer."""

    def __init__(self, der: bytes) -> None:
        self.der = der

    @cached_property
    def _parsed(self) -> x509.Certificate:
        # Not before somebody uses TLS: it takes longer to load than the rest of the broker.
        from cryptography import x509

        try:
            return x509.load_der_x509_certificate(self.der)
        except x509.InvalidVersion as error:
            raise ValueError(str(error)) from None

    @property
    def subject(self) -> str:
        return _print_name(self._parsed.subject)

    @property
    def issuer(self) -> str:
        return _print_name(self._parsed.issuer)

    @property
    def not_before(self) -> datetime.datetime:
        return self._parsed.not_valid_before_utc

    @property
    def not_after(self) -> datetime.datetime:
        return self._parsed.not_valid_after_utc

    @property
    def validity(self) -> str:
        """As the management API shows it."""
        return f"{self.not_before:%Y-%m-%dT%H:%M:%SZ} - {self.not_after:%Y-%m-%dT%H:%M:%SZ}"

    # ---- logins

    def login_name(self, kind: LoginName) -> str:
        """Which user this certificate stands for."""
        name = self.subject if kind == "dn" else self._common_name() if kind == "cn" else self._alternative_name(kind)
        if not name:
            raise ValueError("the certificate's name is empty")
        if len(name.encode("utf-8", "surrogatepass")) > _NAME_OCTETS_MAX:
            raise ValueError(f"the certificate's name is longer than {_NAME_OCTETS_MAX} octets")
        if any(unicodedata.category(character) in _UNSEEN for character in name):
            raise ValueError(f"the certificate's name {name!a} has characters that cannot be seen")
        return name

    def _common_name(self) -> str:
        """The only one: of several, none is more the client's name than another."""
        names = [_text(part.value) for part in self._parsed.subject if part.oid.dotted_string == _COMMON_NAME]
        if len(names) != 1:
            raise ValueError(f"the certificate has {len(names)} common names, not 1")
        return names[0]

    def _alternative_name(self, kind: LoginName) -> str:
        """The first of its kind, as in RabbitMQ: whoever signed the certificate vouches for all of them."""
        from cryptography import x509

        kinds = {"san_dns": x509.DNSName, "san_email": x509.RFC822Name, "san_uri": x509.UniformResourceIdentifier}
        try:
            extension = self._parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except x509.ExtensionNotFound:
            raise ValueError("the certificate has no alternative names") from None
        except (x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
            raise ValueError(f"the certificate's alternative names cannot be read: {error}") from None
        for name in extension.value:
            if isinstance(name, kinds[kind]):
                return _text(name.value)
        raise ValueError(f"the certificate has no alternative name of the kind {kind}")


def read_certificates(pem: bytes) -> list[Certificate]:
    """All certificates of a PEM file; raises ValueError if there is none or one cannot be read."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    return [Certificate(each.public_bytes(Encoding.DER)) for each in x509.load_pem_x509_certificates(pem)]


def _print_name(name: x509.Name) -> str:
    """A distinguished name with its most particular part first (RFC 4514)."""
    return ",".join(
        "+".join(
            f"{_PARTS.get(part.oid.dotted_string, part.oid.dotted_string)}={_escape(_text(part.value))}"
            for part in several
        )
        for several in reversed(list(name.rdns))
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("the certificate has a name that is no text")
    return value


def _escape(value: str) -> str:
    """No two values look alike: what has a meaning gets a backslash, what is no plain ASCII its octets in hex."""
    escaped = []
    for place, character in enumerate(value):
        at_start, at_end = place == 0, place == len(value) - 1
        if character in _ESCAPED or (at_start and character == "#") or ((at_start or at_end) and character == " "):
            escaped.append("\\" + character)
        elif " " <= character < "~":
            escaped.append(character)
        else:
            escaped.extend(f"\\{octet:02X}" for octet in character.encode("utf-8", "surrogatepass"))
    return "".join(escaped)
