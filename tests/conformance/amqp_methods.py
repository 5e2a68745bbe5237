"""The AMQP 0-9-1 methods as RabbitMQ extends them: name, class and method number, fields with their wire types.

A second, independent statement of the protocol: the broker's own tables are never imported here, so that a
mistake there cannot hide in its test. Used by `raw_client` only."""

from typing import Final, NamedTuple


class MethodSpec(NamedTuple):
    """One method: how it is numbered and which fields follow, in order."""

    class_id: int
    method_id: int
    fields: tuple[tuple[str, str], ...]


# One line per method; a field is `name:type`, with bit, octet, short, long, longlong, shortstr, longstr or table.
_TEXT: Final = """
connection.start 10 10 version_major:octet version_minor:octet server_properties:table mechanisms:longstr \
locales:longstr
connection.start-ok 10 11 client_properties:table mechanism:shortstr response:longstr locale:shortstr
connection.secure 10 20 challenge:longstr
connection.secure-ok 10 21 response:longstr
connection.tune 10 30 channel_max:short frame_max:long heartbeat:short
connection.tune-ok 10 31 channel_max:short frame_max:long heartbeat:short
connection.open 10 40 virtual_host:shortstr reserved_1:shortstr reserved_2:bit
connection.open-ok 10 41 reserved_1:shortstr
connection.close 10 50 reply_code:short reply_text:shortstr class_id:short method_id:short
connection.close-ok 10 51
connection.blocked 10 60 reason:shortstr
connection.unblocked 10 61
connection.update-secret 10 70 new_secret:longstr reason:shortstr
connection.update-secret-ok 10 71
channel.open 20 10 reserved_1:shortstr
channel.open-ok 20 11 reserved_1:longstr
channel.flow 20 20 active:bit
channel.flow-ok 20 21 active:bit
channel.close 20 40 reply_code:short reply_text:shortstr class_id:short method_id:short
channel.close-ok 20 41
exchange.declare 40 10 ticket:short exchange:shortstr type:shortstr passive:bit durable:bit auto_delete:bit \
internal:bit nowait:bit arguments:table
exchange.declare-ok 40 11
exchange.delete 40 20 ticket:short exchange:shortstr if_unused:bit nowait:bit
exchange.delete-ok 40 21
exchange.bind 40 30 ticket:short destination:shortstr source:shortstr routing_key:shortstr nowait:bit arguments:table
exchange.bind-ok 40 31
exchange.unbind 40 40 ticket:short destination:shortstr source:shortstr routing_key:shortstr nowait:bit arguments:table
exchange.unbind-ok 40 51
queue.declare 50 10 ticket:short queue:shortstr passive:bit durable:bit exclusive:bit auto_delete:bit nowait:bit \
arguments:table
queue.declare-ok 50 11 queue:shortstr message_count:long consumer_count:long
queue.bind 50 20 ticket:short queue:shortstr exchange:shortstr routing_key:shortstr nowait:bit arguments:table
queue.bind-ok 50 21
queue.unbind 50 50 ticket:short queue:shortstr exchange:shortstr routing_key:shortstr arguments:table
queue.unbind-ok 50 51
queue.purge 50 30 ticket:short queue:shortstr nowait:bit
queue.purge-ok 50 31 message_count:long
queue.delete 50 40 ticket:short queue:shortstr if_unused:bit if_empty:bit nowait:bit
queue.delete-ok 50 41 message_count:long
basic.qos 60 10 prefetch_size:long prefetch_count:short global:bit
basic.qos-ok 60 11
basic.consume 60 20 ticket:short queue:shortstr consumer_tag:shortstr no_local:bit no_ack:bit exclusive:bit \
nowait:bit arguments:table
basic.consume-ok 60 21 consumer_tag:shortstr
basic.cancel 60 30 consumer_tag:shortstr nowait:bit
basic.cancel-ok 60 31 consumer_tag:shortstr
basic.publish 60 40 ticket:short exchange:shortstr routing_key:shortstr mandatory:bit immediate:bit
basic.return 60 50 reply_code:short reply_text:shortstr exchange:shortstr routing_key:shortstr
basic.deliver 60 60 consumer_tag:shortstr delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr
basic.get 60 70 ticket:short queue:shortstr no_ack:bit
basic.get-ok 60 71 delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr message_count:long
basic.get-empty 60 72 reserved_1:shortstr
basic.ack 60 80 delivery_tag:longlong multiple:bit
basic.reject 60 90 delivery_tag:longlong requeue:bit
basic.recover-async 60 100 requeue:bit
basic.recover 60 110 requeue:bit
basic.recover-ok 60 111
basic.nack 60 120 delivery_tag:longlong multiple:bit requeue:bit
tx.select 90 10
tx.select-ok 90 11
tx.commit 90 20
tx.commit-ok 90 21
tx.rollback 90 30
tx.rollback-ok 90 31
confirm.select 85 10 nowait:bit
confirm.select-ok 85 11
"""


def _parse(text: str) -> dict[str, MethodSpec]:
    methods = {}
    for line in text.replace("\\\n", "").strip().splitlines():
        name, class_id, method_id, *fields = line.split()
        pairs = tuple((field.split(":")[0], field.split(":")[1]) for field in fields)
        methods[name] = MethodSpec(int(class_id), int(method_id), pairs)
    return methods


METHODS: Final = _parse(_TEXT)
NAMES: Final = {(spec.class_id, spec.method_id): name for name, spec in METHODS.items()}
