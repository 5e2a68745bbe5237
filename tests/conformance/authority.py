"""Certificates for tests: an authority of our own, and whatever it or others are asked to sign.

Ordinary ones come from trustme; names that no decent authority would sign are put together by hand."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

YEAR = datetime.timedelta(days=365)
YESTERDAY = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)


class Papers(NamedTuple):
    """Files with a certificate, its chain behind it, and its key."""

    certificate: Path
    key: Path

    @property
    def der(self) -> bytes:
        return x509.load_pem_x509_certificate(self.certificate.read_bytes()).public_bytes(serialization.Encoding.DER)


class Authority:
    def __init__(self, directory: Path, ca: trustme.CA | None = None) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.ca = ca or trustme.CA(organization_name="Leveret tests")
        self.file = directory / "ca.pem"
        self.ca.cert_pem.write_to_path(self.file)

    def child(self) -> Authority:
        """An authority between this one and whom it signs for."""
        return Authority(self.directory / "child", self.ca.create_child_ca())

    def issue(self, name: str, *identities: str, expired: bool = False, common_name: str | None = None) -> Papers:
        """A certificate for host names, addresses or e-mail addresses."""
        leaf = self.ca.issue_cert(
            *identities, common_name=common_name, not_after=YESTERDAY if expired else YESTERDAY + 10 * YEAR
        )
        papers = Papers(self.directory / f"{name}.pem", self.directory / f"{name}.key")
        papers.certificate.write_bytes(b"".join(pem.bytes() for pem in leaf.cert_chain_pems))
        leaf.private_key_pem.write_to_path(papers.key)
        return papers

    def server(self, name: str = "server") -> Papers:
        return self.issue(name, "localhost", "127.0.0.1")

    def client(
        self,
        name: str,
        subject: x509.Name | str,
        alternatives: Iterable[x509.GeneralName] = (),
        *,
        self_signed: bool = False,
        only_server: bool = False,
    ) -> Papers:
        """A client's certificate with exactly this name: a text is a common name."""
        if isinstance(subject, str):
            subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.load_pem_x509_certificate(self.ca.cert_pem.bytes())
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if self_signed else issuer.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(YESTERDAY)
            .not_valid_after(YESTERDAY + 10 * YEAR)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        )
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        if only_server:
            builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        signer = serialization.load_pem_private_key(self.ca.private_key_pem.bytes(), None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        certificate = builder.sign(key if self_signed else signer, hashes.SHA256())
        papers = Papers(self.directory / f"{name}.pem", self.directory / f"{name}.key")
        papers.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        papers.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return papers

    def context(self, papers: Papers | None = None) -> ssl.SSLContext:
        """For a client that trusts this authority, and shows these papers."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.ca.configure_trust(context)
        if papers is not None:
            context.load_cert_chain(papers.certificate, papers.key)
        return context
