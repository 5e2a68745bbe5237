"""What bodies of requests look like and what answers have, as JSON Schema for the OpenAPI document.

Says what people should send. Handlers read with management/http/fields.py, which takes more than that, as RabbitMQ
does: "true" for true, "5" for 5."""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
FLAG: Final[Schema] = {"type": "boolean"}
COUNT: Final[Schema] = {"type": "integer"}
ANYTHING: Final[Schema] = {}
TABLE: Final[Schema] = {"type": "object", "description": "Arguments or headers, as AMQP has them."}
TEXTS: Final[Schema] = {"type": "array", "items": TEXT}
TAGS: Final[Schema] = {"oneOf": [TEXT, TEXTS], "description": "A list, or one text with commas."}


def described(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    """An object; underscores in names stand for themselves, and two of them for a hyphen."""
    named = {name.replace("__", "-"): schema for name, schema in properties.items()}
    return {"type": "object", "properties": named, **({"required": list(required)} if required else {})}


def listed(item: Schema) -> Schema:
    """A list; or, if a page is asked for, an envelope with the items of that page."""
    items = {"type": "array", "items": item}
    page = described(
        ("items", "page", "page_count", "page_size", "filtered_count", "item_count", "total_count"),
        items=items,
        page=COUNT,
        page_count=COUNT,
        page_size=COUNT,
        filtered_count=COUNT,
        item_count=COUNT,
        total_count=COUNT,
    )
    return {"oneOf": [items, page]}


# What every refusal is.
ERROR: Final[Schema] = {"$ref": "#/components/schemas/Error"}

# ---- what is sent

QUEUE_BODY: Final = described(durable=FLAG, auto_delete=FLAG, arguments=TABLE, node=TEXT)
EXCHANGE_BODY: Final = described(("type",), type=TEXT, durable=FLAG, auto_delete=FLAG, internal=FLAG, arguments=TABLE)
BACKUP_BODY: Final = described(("to",), to=TEXT, copy=FLAG)
BINDING_BODY: Final = described(routing_key=TEXT, arguments=TABLE)
MESSAGE_BODY: Final = described(
    ("routing_key", "properties", "payload", "payload_encoding"),
    routing_key=TEXT,
    properties=described(
        headers=TABLE,
        delivery_mode={"type": "integer", "enum": [1, 2]},
        priority={"type": "integer", "minimum": 0, "maximum": 255},
        content_type=TEXT,
        correlation_id=TEXT,
        reply_to=TEXT,
        expiration=TEXT,
        message_id=TEXT,
        timestamp=COUNT,
        type=TEXT,
        user_id=TEXT,
        app_id=TEXT,
    ),
    payload=TEXT,
    payload_encoding={"type": "string", "enum": ["string", "base64"]},
    confirm=FLAG,
)
GET_BODY: Final = described(
    ("ackmode", "count", "encoding"),
    ackmode={
        "type": "string",
        "enum": ["ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false"],
    },
    count={"type": "integer", "minimum": 0},
    encoding={"type": "string", "enum": ["auto", "base64"]},
    truncate={"type": "integer", "minimum": 0},
)
ACK_BODY: Final = described(delivery_ids=TEXTS, delivery_tag=COUNT, multiple=FLAG)
NACK_BODY: Final = described(delivery_ids=TEXTS, delivery_tag=COUNT, multiple=FLAG, requeue=FLAG)
REPROCESS_BODY: Final = described(
    mode={"type": "string", "enum": ["original_exchange", "original_queue", "target"]},
    exchange=TEXT,
    routing_key=TEXT,
    filter={"type": "object"},
    limit={"type": "integer", "minimum": 0},
    rate={"type": "number", "minimum": 0},
    dry_run=FLAG,
    on_unroutable={"type": "string", "enum": ["stop", "skip"]},
    wait={"type": "number", "minimum": 0, "maximum": 60},
)
SIMULATE_BODY: Final = described(
    ("exchange", "routing_key"), vhost=TEXT, exchange=TEXT, routing_key=TEXT, headers=TABLE
)
USER_BODY: Final = described(
    ("tags",), password=TEXT, password_hash=TEXT, hashing_algorithm=TEXT, tags=TAGS, limits={"type": "object"}
)
SESSION_BODY: Final = described(username=TEXT, password=TEXT, token=TEXT)
USERS_BODY: Final = described(("users",), users=TEXTS)
PASSWORD_BODY: Final = described(("password",), password=TEXT)
PERMISSION_BODY: Final = described(("configure", "write", "read"), configure=TEXT, write=TEXT, read=TEXT)
TOPIC_PERMISSION_BODY: Final = described(("exchange", "write", "read"), exchange=TEXT, write=TEXT, read=TEXT)
POLICY_BODY: Final = described(
    ("pattern", "definition"),
    pattern=TEXT,
    definition={"type": "object"},
    priority=COUNT,
    apply__to={"type": "string", "enum": ["all", "queues", "exchanges", "classic_queues", "quorum_queues", "streams"]},
)
VALUE_BODY: Final = described(("value",), value=ANYTHING)
LIMIT_BODY: Final = described(("value",), value=COUNT)
NAME_BODY: Final = described(("name",), name=TEXT)
VHOST_BODY: Final = described(
    description=TEXT, tags=TAGS, default_queue_type=TEXT, tracing=FLAG, protected_from_deletion=FLAG
)
ACTION_BODY: Final = described(("action",), action={"type": "string", "enum": ["sync", "cancel_sync"]})
SUPER_STREAM_BODY: Final = described(partitions=COUNT, binding__keys=TEXT, arguments=TABLE)
DEFINITIONS: Final = described(
    (),
    **{
        kind: {"type": "array", "items": {"type": "object"}}
        for kind in (
            "users",
            "vhosts",
            "permissions",
            "topic_permissions",
            "parameters",
            "global_parameters",
            "policies",
            "queues",
            "exchanges",
            "bindings",
        )
    },
)

# ---- what is answered: the main fields; columns leave out any of them

QUEUE: Final = described(
    name=TEXT,
    vhost=TEXT,
    type=TEXT,
    durable=FLAG,
    auto_delete=FLAG,
    exclusive=FLAG,
    arguments=TABLE,
    node=TEXT,
    state=TEXT,
    messages=COUNT,
    messages_ready=COUNT,
    messages_unacknowledged=COUNT,
    messages_unacked=COUNT,
    consumers=COUNT,
)
EXCHANGE: Final = described(
    name=TEXT, vhost=TEXT, type=TEXT, durable=FLAG, auto_delete=FLAG, internal=FLAG, arguments=TABLE
)
BINDING: Final = described(
    source=TEXT,
    vhost=TEXT,
    destination=TEXT,
    destination_type={"type": "string", "enum": ["queue", "exchange"]},
    routing_key=TEXT,
    arguments=TABLE,
    properties_key=TEXT,
)
VHOST: Final = described(name=TEXT, description=TEXT, tags=TEXTS, tracing=FLAG)
USER: Final = described(name=TEXT, password_hash=TEXT, hashing_algorithm=TEXT, tags=TEXTS, limits={"type": "object"})
# Why patterns of it are of no use, by field; missing if there is nothing wrong.
PROBLEMS: Final = {"type": "object", "additionalProperties": TEXT}
PERMISSION: Final = described(user=TEXT, vhost=TEXT, configure=TEXT, write=TEXT, read=TEXT, pattern_problems=PROBLEMS)
TOPIC_PERMISSION: Final = described(
    user=TEXT, vhost=TEXT, exchange=TEXT, write=TEXT, read=TEXT, pattern_problems=PROBLEMS
)
POLICY: Final = described(
    vhost=TEXT, name=TEXT, pattern=TEXT, definition={"type": "object"}, priority=COUNT, pattern_problems=PROBLEMS
)
PARAMETER: Final = described(vhost=TEXT, component=TEXT, name=TEXT, value=ANYTHING)
CONNECTION: Final = described(name=TEXT, user=TEXT, vhost=TEXT, protocol=TEXT, peer_host=TEXT, channels=COUNT)
CHANNEL: Final = described(name=TEXT, number=COUNT, user=TEXT, vhost=TEXT, consumer_count=COUNT)
CONSUMER: Final = described(consumer_tag=TEXT, queue={"type": "object"}, ack_required=FLAG, active=FLAG)
PUBLISHED: Final = described(("routed",), routed=FLAG)
PURGED: Final = described(("messages_deleted",), messages_deleted=COUNT)
# As paths without /api take and give messages.
PLAIN_MESSAGE_BODY: Final = {**MESSAGE_BODY, "required": ["routing_key", "payload"]}
PLAIN_QUEUE_BODY: Final = described(durable=FLAG, exclusive=FLAG, auto_delete=FLAG, arguments=TABLE)
PLAIN_ACK_BODY: Final = described(("delivery_tag",), delivery_tag=COUNT, multiple=FLAG)
PLAIN_NACK_BODY: Final = described(("delivery_tag",), delivery_tag=COUNT, multiple=FLAG, requeue=FLAG)
PLAIN_MESSAGES: Final = described(
    ("messages",),
    messages={
        "type": "array",
        "items": described(
            ("delivery_tag", "exchange", "routing_key", "properties", "payload", "redelivered"),
            delivery_tag=COUNT,
            exchange=TEXT,
            routing_key=TEXT,
            properties={"type": "object"},
            payload=TEXT,
            # Only where the payload is no text.
            payload_encoding={"type": "string", "enum": ["base64"]},
            redelivered=FLAG,
        ),
    },
)
MESSAGES: Final = {
    "type": "array",
    "items": described(
        ("payload", "payload_bytes", "payload_encoding", "exchange", "routing_key", "properties"),
        payload=TEXT,
        payload_bytes=COUNT,
        payload_encoding={"type": "string", "enum": ["string", "base64"]},
        exchange=TEXT,
        routing_key=TEXT,
        properties={"type": "object"},
        redelivered=FLAG,
    ),
}
BACKUP: Final = described(
    ("state",),
    state={"type": "string", "enum": ["none", "running", "done", "failed"]},
    to=TEXT,
    started_at={"type": "number"},
    ended_at={"type": "number"},
    files=COUNT,
    files_total=COUNT,
    bytes=COUNT,
    bytes_total=COUNT,
    linked=COUNT,
    error=TEXT,
)
DAMAGES: Final[Schema] = {
    "type": "array",
    "items": described(("file", "offset", "size", "what"), file=TEXT, offset=COUNT, size=COUNT, what=TEXT),
}
SUSPENSIONS: Final[Schema] = {
    "type": "array",
    "items": described(("user", "reason", "since"), user=TEXT, reason=TEXT, since=COUNT),
}
TASK: Final = described(("id", "state"), id=TEXT, state=TEXT, vhost=TEXT, queue=TEXT, moved=COUNT, failed=COUNT)
