"""rabbitmq.conf to our settings, as a whole."""

from __future__ import annotations

from leveret.node.migrate.accounts import PEOPLE
from leveret.node.migrate.broker_keys import BROKER_KEYS
from leveret.node.migrate.findings import Migration, apply_rules
from leveret.node.migrate.listeners import DOORS, EVERY_ADDRESS, EVERY_ADDRESS_WHY
from leveret.node.migrate.rabbitmq_conf import Entry

RABBITMQ_PORT = 5672
# Our defaults follow listen.port; RabbitMQ's do not.
FIXED_PORTS = {"listen.stream_port": 5552, "listen.management_port": 15672, "listen.metrics_port": 15692}


def convert(entries: list[Entry]) -> Migration:
    migration = apply_rules(entries, (*DOORS, *PEOPLE, *BROKER_KEYS))
    values = migration.values
    if "listen.host" not in values:
        migration.set("listen.host", EVERY_ADDRESS, EVERY_ADDRESS_WHY)
    if values.get("listen.port", RABBITMQ_PORT) not in (RABBITMQ_PORT, "off"):
        for key, port in FIXED_PORTS.items():
            if key not in values:
                migration.set(key, port, "RabbitMQ's; without this line it would follow listen.port")
    if "EXTERNAL" in values.get("auth.mechanisms", ()) and "auth.external_name" not in values:
        migration.set("auth.external_name", "dn", "RabbitMQ's default")
    migration.check()
    return migration
