"""What a request can be refused with, and what the broker's own errors become.

The words are RabbitMQ's where clients read them: {"error": ..., "reason": ...}."""

from __future__ import annotations

from collections.abc import Mapping

from leveret.errors import (
    AmqpError,
    BackupConflict,
    Forbidden,
    InvalidPolicy,
    InvalidReplay,
    LeveretError,
    ReplayConflict,
    ReplayNotFound,
    TooManyLeases,
)


class HttpError(Exception):
    """Ends a request with this status. `reason` is any value of JSON."""

    def __init__(self, status: int, error: str, reason: object, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, error, reason)
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = dict(headers or {})


def bad_request(reason: object, error: str = "bad_request") -> HttpError:
    return HttpError(400, error, reason)


def keys_missing(*keys: str) -> HttpError:
    """In RabbitMQ's words, which are an Erlang term."""
    return bad_request("[" + ",".join(f"{{key_missing,{key}}}" for key in keys) + "]")


def not_found() -> HttpError:
    return HttpError(404, "Object Not Found", "Not Found")


def vhost_not_found() -> HttpError:
    """For what was to be made in a virtual host that is not there."""
    return HttpError(404, "not_found", "vhost_not_found")


def not_authorised(reason: str) -> HttpError:
    """Logged in, but not allowed to: RabbitMQ says 401 to this as well."""
    return HttpError(401, "not_authorised", reason)


def refusal_of(error: LeveretError) -> HttpError:
    """What an error that a lower floor raised on purpose says over HTTP."""
    if isinstance(error, AmqpError):
        if error.code == 404:
            return not_found()
        if error.code == 403:
            return not_authorised(error.reply_text)
        return bad_request(error.text if error.code == 406 else f"{error.code} {error.text}")
    if isinstance(error, Forbidden):
        return not_authorised(error.text)
    if isinstance(error, InvalidPolicy):
        return bad_request(error.reason)
    if isinstance(error, InvalidReplay):
        return bad_request(str(error))
    if isinstance(error, ReplayNotFound):
        return HttpError(404, "not_found", str(error))
    if isinstance(error, ReplayConflict | BackupConflict):
        return HttpError(409, "conflict", str(error))
    if isinstance(error, TooManyLeases):
        return HttpError(429, "too_many_leases", str(error))
    return bad_request(str(error))
