"""Names between text and octets: those of queues, exchanges, routing keys, consumers and users.

AMQP does not say how a name is encoded. The control plane has names as text, the data plane as octets; octets that are
not UTF-8 survive the way there and back."""

__all__ = ["NAME_OCTETS_MAX", "name_octets", "name_text"]

# A short string of AMQP has its length in one octet, and every name is one.
NAME_OCTETS_MAX = 255


def name_octets(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def name_text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")
