"""What the management API says of a TLS connection, in RabbitMQ's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from leveret.runtime.tls_peer import TlsPeer
from tests.conformance.authority import Authority


@pytest.mark.parametrize(
    ("name", "key_exchange", "cipher", "digest"),
    [
        # The first five as RabbitMQ 3.10.8 had them.
        ("TLS_AES_256_GCM_SHA384", "any", "aes_256_gcm", "aead"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ecdhe_rsa", "aes_128_gcm", "aead"),
        ("ECDHE-RSA-AES256-SHA384", "ecdhe_rsa", "aes_256_cbc", "sha384"),
        ("ECDHE-RSA-CHACHA20-POLY1305", "ecdhe_rsa", "chacha20_poly1305", "aead"),
        ("DHE-RSA-AES256-GCM-SHA384", "dhe_rsa", "aes_256_gcm", "aead"),
        ("TLS_CHACHA20_POLY1305_SHA256", "any", "chacha20_poly1305", "aead"),
        ("TLS_AES_128_CCM_8_SHA256", "any", "aes_128_ccm_8", "aead"),
        ("ECDHE-ECDSA-AES256-CCM8", "ecdhe_ecdsa", "aes_256_ccm_8", "aead"),
        ("ECDHE-ARIA256-GCM-SHA384", "ecdhe", "aria_256_gcm", "aead"),
        ("AES128-SHA", "rsa", "aes_128_cbc", "sha"),
    ],
)
def test_the_parts_of_a_cipher(name: str, key_exchange: str, cipher: str, digest: str) -> None:
    peer = TlsPeer("TLSv1.3", name, None)
    assert (peer.key_exchange, peer.cipher, peer.hash) == (key_exchange, cipher, digest)
    assert peer.protocol == "tlsv1.3"


def test_a_peers_certificate(tmp_path: Path) -> None:
    papers = Authority(tmp_path).client("ann", "ann")
    peer = TlsPeer("TLSv1.2", "AES128-SHA", papers.der)
    assert peer.certificate_subject == "CN=ann"
    assert "Leveret tests" in peer.certificate_issuer
    assert peer.certificate_validity.count("Z") == 2


@pytest.mark.parametrize("der", [None, b"no certificate"])
def test_no_certificate_is_empty_text(der: bytes | None) -> None:
    peer = TlsPeer("TLSv1.2", "AES128-SHA", der)
    assert (peer.certificate_subject, peer.certificate_issuer, peer.certificate_validity) == ("", "", "")
