"""Names between text and octets: those of queues, exchanges, routing keys, consumers and users.

AMQP does not say how a name is encoded. The control plane has names as text, the data plane as octets; octets that are
not UTF-8 survive the way there and back."""

__all__ = ["name_octets", "name_text"]


def name_octets(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def name_text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")
