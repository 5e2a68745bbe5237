"""Publishing over HTTP."""

from __future__ import annotations

import msgspec

from leveret.broker.access import Right
from leveret.errors import AmqpError
from leveret.management.api.message_json import body_of, properties_from
from leveret.management.http.ask import Answer, Ask
from leveret.management.http.bodies import MESSAGE_BODY, PUBLISHED
from leveret.management.http.errors import HttpError, bad_request
from leveret.management.http.fields import Fields
from leveret.management.http.json import Parts
from leveret.management.http.route import Size, route


class Message(Parts):
    LARGE = "payload"

    routing_key: msgspec.Raw = msgspec.Raw()
    properties: msgspec.Raw = msgspec.Raw()
    payload: msgspec.Raw = msgspec.Raw()
    payload_encoding: msgspec.Raw = msgspec.Raw()
    confirm: msgspec.Raw = msgspec.Raw()


# In RabbitMQ's words.
REFUSED = "rejected Unable to publish message. Check queue limits."
RETRY_AFTER_S = "5"


@route(
    "POST",
    "/api/exchanges/{vhost}/{exchange}/publish",
    Right.MANAGEMENT,
    "Publish a message; answers once it is safe",
    size=Size.LARGE,
    body=Message,
    answers={200: PUBLISHED},
    accepts=MESSAGE_BODY,
)
async def publish(ask: Ask) -> Answer:
    """Answers when what must survive is on disk, unless the body says `confirm: false`. `queues` are those that the
    message went to."""
    who = ask.requester()
    fields = Fields(ask.body)
    fields.need("routing_key", "properties", "payload", "payload_encoding")
    key = fields.text("routing_key")
    confirm = fields.flag("confirm", True)
    properties = properties_from(fields)
    body = body_of(fields)
    publishing = ask.services.publishing
    reason = publishing.blocked_reason
    if reason is not None:
        raise HttpError(503, "blocked", f"publishers are blocked: {reason}", {"Retry-After": RETRY_AFTER_S})
    try:
        published = publishing.publish(who, ask.exchange_name, key, properties, body)
    except AmqpError as error:
        # Like RabbitMQ, which has its channel closed with this.
        raise bad_request(str(error)) from None
    if confirm and published.logged:
        await ask.synced()
    if published.refused:
        raise bad_request(REFUSED)
    return Answer(body={"routed": published.routed, "queues": list(published.queues)})
