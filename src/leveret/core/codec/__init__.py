"""Octets, tables, properties, frames: what AMQP's values look like on the wire. Knows no queue and no connection."""
