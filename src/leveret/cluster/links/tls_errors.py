"""What a failed TLS handshake between nodes means, in words that help."""

from __future__ import annotations

import ssl

from leveret.cluster.links.refusals import Reason, Refusal
from leveret.runtime.tls_transport import ssl_reason

# The first octet of every TLS connection.
_HANDSHAKE_RECORD = 0x16
# OpenSSL's X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED.
_OUT_OF_TIME = (9, 10)
_BY_REASON = {
    "UNSUPPORTED_PROTOCOL": Reason.TLS_VERSION,
    "TLSV1_ALERT_PROTOCOL_VERSION": Reason.TLS_VERSION,
    "VERSION_TOO_LOW": Reason.TLS_VERSION,
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": Reason.CERTIFICATE_MISSING,
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": Reason.CERTIFICATE_MISSING,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": Reason.CERTIFICATE_EXPIRED,
    "TLSV1_ALERT_UNKNOWN_CA": Reason.CERTIFICATE_STRANGE,
    "SSLV3_ALERT_BAD_CERTIFICATE": Reason.CERTIFICATE_STRANGE,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": Reason.CERTIFICATE_STRANGE,
    "TLSV1_ALERT_DECRYPT_ERROR": Reason.CERTIFICATE_STRANGE,
    "HTTP_REQUEST": Reason.PLAIN_TEXT,
    "HTTPS_PROXY_REQUEST": Reason.PLAIN_TEXT,
}


def refusal_of(error: OSError, first_octets: bytes) -> Refusal:
    """`first_octets` are the first that came from the other side."""
    if isinstance(error, TimeoutError):
        return Refusal(Reason.DEADLINE, "the TLS handshake took too long")
    if first_octets and first_octets[0] != _HANDSHAKE_RECORD and not _is_alert(first_octets):
        return Refusal(Reason.PLAIN_TEXT, f"it began with {first_octets[:4]!r}")
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = Reason.CERTIFICATE_EXPIRED if error.verify_code in _OUT_OF_TIME else Reason.CERTIFICATE_STRANGE
        return Refusal(reason, f"the certificate of the other side is refused: {error.verify_message}")
    reason = _BY_REASON.get(getattr(error, "reason", None) or "", Reason.TLS_FAILED)
    return Refusal(reason, ssl_reason(error))


def _is_alert(octets: bytes) -> bool:
    return len(octets) >= 2 and octets[0] == 0x15 and octets[1] == 3
