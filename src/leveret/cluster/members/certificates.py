"""Certificates of a cluster: an authority of its own, and what it signs for nodes.

Only makes and checks them; files are those of credentials.py. A node's certificate names the cluster and the node by a
URI, and nothing else counts. The moment comes in as an argument."""

from __future__ import annotations

import datetime
import hashlib

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from leveret.cluster.links.handshake import node_uri

AUTHORITY_LIFE = datetime.timedelta(days=20 * 365)
# Long, because it is renewed by hand: the authority can be asked to forget a node, and links then refuse it.
NODE_LIFE = datetime.timedelta(days=5 * 365)
# Clocks of nodes may differ.
_SKEW = datetime.timedelta(minutes=10)
REQUEST_BYTES_MAX = 2048
_NAME_CHARACTERS_MAX = 60

Key = ec.EllipticCurvePrivateKey


def make_key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def read_key(pem: bytes) -> Key:
    """Raises ValueError."""
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("not a key on an elliptic curve")
    return key


def fingerprint(certificate: x509.Certificate) -> bytes:
    """32 octets that stand for the authority in a token."""
    return certificate.fingerprint(hashes.SHA256())


def certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def read_certificate(pem: bytes) -> x509.Certificate:
    """Raises ValueError."""
    return x509.load_pem_x509_certificate(pem)


def key_id(request: x509.CertificateSigningRequest) -> str:
    """By which a key is recognised that asks again."""
    octets = request.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return hashlib.sha256(octets).hexdigest()


def make_authority(cluster_name: str, key: Key, now: datetime.datetime) -> x509.Certificate:
    name = _name(f"Leveret cluster {cluster_name}")
    public = key.public_key()
    return (
        _builder(name, name, public, now, AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )


def make_request(node_name: str, key: Key) -> bytes:
    """What a node sends to get its certificate: DER, signed with its key, which stays where it is."""
    request = x509.CertificateSigningRequestBuilder().subject_name(_name(node_name)).sign(key, hashes.SHA256())
    return request.public_bytes(serialization.Encoding.DER)


def read_request(der: bytes) -> x509.CertificateSigningRequest:
    """Raises ValueError unless whoever asks has the key; its other wishes are ignored."""
    if len(der) > REQUEST_BYTES_MAX:
        raise ValueError(f"a request of {len(der)} octets")
    request = x509.load_der_x509_csr(der)
    key = request.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("a request for a key that is not on the curve P-256")
    if not request.is_signature_valid:
        raise ValueError("a request that is not signed with its key")
    return request


def sign_node(
    authority: x509.Certificate,
    authority_key: Key,
    request: x509.CertificateSigningRequest,
    cluster: bytes,
    node: int,
    node_name: str,
    now: datetime.datetime,
) -> x509.Certificate:
    public = request.public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey), "checked when the request was read"
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return (
        _builder(_name(node_name), authority.subject, public, now, NODE_LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([x509.UniformResourceIdentifier(node_uri(cluster, node))]), critical=False
        )
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )


def fits(certificate: x509.Certificate, key: Key, authority: x509.Certificate) -> bool:
    """Whether a certificate is for this key and from this authority."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, TypeError, ValueError):
        return False
    return certificate.public_key() == key.public_key()


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    life: datetime.timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + life)
    )


def _usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:_NAME_CHARACTERS_MAX] or "node")])
