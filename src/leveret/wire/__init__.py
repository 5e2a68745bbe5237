"""AMQP's control methods, their codec, the handshake's rules and the protocol's limits. No I/O, no clock."""
