"""What is known of the other end of a TLS connection: protocol, cipher and, if it showed one, its certificate.

In the words of RabbitMQ's management API. Made by runtime/tls_transport.py when a handshake is over."""

from __future__ import annotations

import re

from leveret.runtime.certificate import Certificate

_KEY_EXCHANGE = re.compile(r"(ECDHE|DHE|ECDH|DH|PSK|RSA)-((?:RSA|ECDSA|DSS|PSK)-)?")
_BLOCK_CIPHER = re.compile(r"(AES|ARIA|CAMELLIA)_?(128|256)(?:[-_](GCM|CCM8|CCM_8|CCM))?")


class TlsPeer:
    __slots__ = ("certificate", "cipher_name", "protocol")

    def __init__(self, protocol: str, cipher_name: str, certificate: bytes | None) -> None:
        # Such as tlsv1.3.
        self.protocol = protocol.lower()
        # As OpenSSL has it.
        self.cipher_name = cipher_name
        # Verified, or the handshake would have failed. None if the peer showed none, or was not asked.
        self.certificate = None if certificate is None else Certificate(certificate)

    @property
    def key_exchange(self) -> str:
        if self.cipher_name.startswith("TLS_"):
            # From TLS 1.3 on a cipher says nothing of it.
            return "any"
        found = _KEY_EXCHANGE.match(self.cipher_name)
        return "rsa" if found is None else found.group(0).rstrip("-").replace("-", "_").lower()

    @property
    def cipher(self) -> str:
        if "CHACHA20" in self.cipher_name:
            return "chacha20_poly1305"
        found = _BLOCK_CIPHER.search(self.cipher_name)
        if found is None:
            return self.cipher_name.lower()
        family, bits, mode = found.groups()
        return f"{family}_{bits}_{(mode or 'cbc').replace('CCM8', 'CCM_8')}".lower()

    @property
    def hash(self) -> str:
        """What guards a record against change; with most ciphers that is the cipher itself."""
        if not self.cipher.endswith("_cbc"):
            return "aead"
        return self.cipher_name.rsplit("-", 1)[-1].lower()

    # ---- the certificate, empty if there is none or it cannot be read

    @property
    def certificate_subject(self) -> str:
        return self._of_certificate("subject")

    @property
    def certificate_issuer(self) -> str:
        return self._of_certificate("issuer")

    @property
    def certificate_validity(self) -> str:
        return self._of_certificate("validity")

    def _of_certificate(self, what: str) -> str:
        if self.certificate is None:
            return ""
        try:
            return str(getattr(self.certificate, what))
        except ValueError:
            return ""
