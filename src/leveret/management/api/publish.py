"""Publishing over HTTP."""

from __future__ import annotations

import msgspec

from leveret.auth.access import Right
from leveret.errors import AmqpError
from leveret.management.api.message_json import body_of, properties_from
from leveret.management.http.bodies import MESSAGE_BODY, PUBLISHED
from leveret.management.http.errors import HttpError, bad_request
from leveret.management.http.fields import Fields
from leveret.management.http.json import Parts
from leveret.management.http.request import Answer, Request
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
async def publish(request: Request) -> Answer:
    fields = Fields(request.body)
    fields.need("routing_key", "properties", "payload", "payload_encoding")
    return await published(request, fields)


async def published(request: Request, fields: Fields) -> Answer:
    """Answers when what must survive is on disk, unless the body says `confirm: false`."""
    who = request.requester()
    key = fields.text("routing_key")
    confirm = fields.flag("confirm", True)
    properties = properties_from(fields)
    body = body_of(fields)
    publishing = request.services.publishing
    reason = publishing.blocked_reason
    if reason is not None:
        raise HttpError(503, "blocked", f"publishers are blocked: {reason}", {"Retry-After": RETRY_AFTER_S})
    try:
        made = publishing.publish(who, request.exchange_name, key, properties, body)
    except AmqpError as error:
        # Like RabbitMQ, which has its channel closed with this.
        raise bad_request(str(error)) from None
    if confirm and made.logged:
        await request.synced()
    if made.refused:
        raise bad_request(REFUSED)
    # Nothing beside it: clients that check answers against a schema refuse what RabbitMQ does not have.
    return Answer(body={"routed": made.routed})
