"""The options of `format("leveret")`: each declared once, read and checked in one place.

Names are those of Spark's Kafka connector wherever there is one. Spark gives names in lower case and values as text. An
option that nobody knows is refused: a mistyped limit must not be no limit."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from leveret.spark.errors import InvalidOption

__all__ = ["ANY", "READ", "WRITE", "OptionSpec", "read_options"]

ANY, READ, WRITE = "any", "read", "write"

WRITE_ID_BYTES_MAX = 200
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|seconds?|minutes?|hours?|days?)\s*")


class OptionSpec(NamedTuple):
    name: str
    side: str
    parse: Callable[[str], Any]
    default: Any
    allowed: str
    what: str


def _text(value: str) -> str:
    if not value:
        raise ValueError
    return value


def _flag(value: str) -> bool:
    return {"true": True, "false": False}[value.strip().lower()]


def _above_zero(value: str) -> int:
    number = int(value)
    if number <= 0:
        raise ValueError
    return number


def _span(value: str) -> float:
    found = _SPAN.fullmatch(value)
    if found is None:
        raise ValueError
    unit = found[2] if found[2] in _UNITS_S else found[2][0]
    return float(found[1]) * _UNITS_S[unit]


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value not in words:
            raise ValueError
        return value

    return parse


def _names(value: str) -> tuple[str, ...]:
    found = tuple(name.strip() for name in value.split(",") if name.strip())
    if not found:
        raise ValueError
    return found


def _pattern(value: str) -> str:
    re.compile(value)
    return _text(value)


def _write_id(value: str) -> str:
    # Names and ids of at most 255 octets are made of it.
    if not 0 < len(value.encode()) <= WRITE_ID_BYTES_MAX:
        raise ValueError
    return value


def _group(value: str) -> str:
    if not 0 < len(value.encode()) <= 255:
        raise ValueError
    return value


def _priority(value: str) -> int:
    number = int(value)
    if not 0 <= number <= 255:
        raise ValueError
    return number


_YES_NO = "true or false"
_COUNT = "a whole number above 0"
_TIME = 'a number with a unit, such as "500ms", "30s", "15m" or "2h"'
_OFFSETS = (
    '"earliest", "latest", "stored" (with groupName), an offset, an ISO 8601 time, or JSON such as '
    '{"orders-0": 12, "orders-1": "latest"}'
)

SPECS = (
    OptionSpec(
        "url",
        ANY,
        _text,
        "amqp://127.0.0.1:5672/",
        "an amqp:// or amqps:// URL, or several, separated by commas",
        "the address of the broker",
    ),
    OptionSpec("user", ANY, _text, None, "a text", "the user name, if it is not in the URL"),
    OptionSpec("password", ANY, _text, None, "a text", "the password; prefer passwordFile or passwordEnv"),
    OptionSpec(
        "passwordFile", ANY, _text, None, "a path that driver and executors can read", "a file with the password"
    ),
    OptionSpec(
        "passwordEnv",
        ANY,
        _text,
        None,
        "the name of a variable",
        "a variable with the password, in the driver's environment",
    ),
    OptionSpec(
        "auth", ANY, _one_of("plain", "external"), "plain", '"plain" or "external"', "external logs in by certificate"
    ),
    OptionSpec("ca", ANY, _text, None, "a path", "the certificate authorities to trust"),
    OptionSpec("certificate", ANY, _text, None, "a path", "the client certificate"),
    OptionSpec("key", ANY, _text, None, "a path", "the key of the client certificate"),
    OptionSpec(
        "serverName", ANY, _text, None, "a name", "the name in the broker's certificate, if it differs from the host"
    ),
    OptionSpec(
        "managementUrl",
        ANY,
        _text,
        None,
        "an http:// or https:// URL",
        "the HTTP API: for streamPattern, for browsing queues, and for superStream with RabbitMQ; by default port "
        "15672 of the same host, and https:// at port 15671 if url is amqps://",
    ),
    OptionSpec(
        "managementPlain",
        ANY,
        _flag,
        False,
        _YES_NO,
        "whether managementUrl may be http:// although url is amqps://: the password is then sent in the clear",
    ),
    OptionSpec("retryTimeout", ANY, _span, 60.0, _TIME, "how long to retry after a lost connection"),
    OptionSpec(
        "stream",
        READ,
        _names,
        None,
        "names, separated by commas",
        'the streams to read; load("orders") is the same',
    ),
    OptionSpec("superStream", READ, _text, None, "a name", "read all partitions of this super stream"),
    OptionSpec(
        "streamPattern",
        READ,
        _pattern,
        None,
        "a regular expression",
        "read all streams with a matching name, including new ones",
    ),
    OptionSpec(
        "queue",
        READ,
        _text,
        None,
        "a name",
        "read a queue instead: spark.read browses its messages, readStream consumes them",
    ),
    OptionSpec("columns", READ, _names, None, "column names, separated by commas", "produce only these columns"),
    OptionSpec(
        "startingOffsets",
        READ,
        _text,
        None,
        _OFFSETS,
        "where to start; default: earliest for batches, latest for streaming queries",
    ),
    OptionSpec("endingOffsets", READ, _text, None, _OFFSETS, "where a batch ends; default: latest"),
    OptionSpec(
        "startingTimestamp", READ, _text, None, "an ISO 8601 time, or milliseconds since 1970", "where to start"
    ),
    OptionSpec(
        "endingTimestamp", READ, _text, None, "an ISO 8601 time, or milliseconds since 1970", "where a batch ends"
    ),
    OptionSpec(
        "maxOffsetsPerTrigger", READ, _above_zero, None, _COUNT, "maximum number of messages in one micro-batch"
    ),
    OptionSpec("minOffsetsPerTrigger", READ, _above_zero, None, _COUNT, "wait for this many messages"),
    OptionSpec("maxTriggerDelay", READ, _span, 900.0, _TIME, "the longest wait for minOffsetsPerTrigger"),
    OptionSpec("minPartitions", READ, _above_zero, None, _COUNT, "split ranges into at least this many tasks"),
    OptionSpec("maxRecordsPerPartition", READ, _above_zero, 500_000, _COUNT, "maximum number of messages in one task"),
    OptionSpec(
        "failOnDataLoss",
        READ,
        _flag,
        True,
        _YES_NO,
        "whether messages or streams that were deleted unread are an error or a warning",
    ),
    OptionSpec(
        "groupName", READ, _group, None, "1 to 255 octets", "store the progress under this name after each batch"
    ),
    OptionSpec(
        "pushFilters",
        READ,
        _flag,
        False,
        _YES_NO,
        "whether filters reduce what is read; only for a DataFrame that one query uses",
    ),
    OptionSpec("limit", READ, _above_zero, None, _COUNT, "maximum number of messages to read from a queue"),
    OptionSpec(
        "exchange",
        WRITE,
        str,
        None,
        "a name; empty for the default exchange",
        "the exchange for rows without a column `exchange`",
    ),
    OptionSpec("routingKey", WRITE, str, None, "a text", "the routing key for rows without a column `routing_key`"),
    OptionSpec("mandatory", WRITE, _flag, True, _YES_NO, "whether an unroutable row is an error"),
    OptionSpec("persistent", WRITE, _flag, True, _YES_NO, "whether messages survive a restart of the broker"),
    OptionSpec("priority", WRITE, _priority, None, "0 to 255", "the priority for rows without a column `priority`"),
    OptionSpec(
        "contentType", WRITE, _text, None, "a text", "the content type for rows without a column `content_type`"
    ),
    OptionSpec("confirmTimeout", WRITE, _span, 60.0, _TIME, "how long a message may wait for its confirm"),
    OptionSpec(
        "writeId",
        WRITE,
        _write_id,
        None,
        f"a text of 1 to {WRITE_ID_BYTES_MAX} octets",
        "the same for each attempt to write the same rows, so that published rows are recognised",
    ),
    OptionSpec(
        "badRows",
        WRITE,
        _one_of("fail", "divert"),
        "fail",
        '"fail" or "divert"',
        "whether rows that cannot be published fail the write or are diverted",
    ),
    OptionSpec(
        "badRowsPath",
        WRITE,
        _text,
        None,
        "a directory that all executors can write to",
        "where diverted rows are written, with a column `error`",
    ),
)

# What Spark itself adds.
SPARKS = {"path", "checkpointlocation", "queryname", "outputmode"}


def read_options(given: Mapping[str, str], side: str) -> dict[str, Any]:
    """All options of a side by name, checked. Raises InvalidOption, which says what is wrong and what is right."""
    specs = {spec.name.lower(): spec for spec in SPECS if spec.side in (ANY, side)}
    found = {spec.name: spec.default for spec in specs.values()}
    for name, text in given.items():
        lower = name.lower()
        if lower in SPARKS:
            continue
        spec = specs.get(lower)
        if spec is None:
            others = [one.name for one in SPECS if one.name.lower() == lower]
            if others:
                raise InvalidOption(f"the option {others[0]!r} is for {'writing' if side == READ else 'reading'} alone")
            names = ", ".join(sorted(one.name for one in specs.values()))
            raise InvalidOption(f"there is no option {name!r}; there are {names}")
        try:
            found[spec.name] = spec.parse(text)
        except (ValueError, KeyError, re.error):
            shown = "..." if spec.name in ("password", "url") else repr(text)
            raise InvalidOption(f"the option {spec.name} is {shown}; it must be {spec.allowed}") from None
    if side == READ and given.get("path") and found["stream"] is None:
        found["stream"] = _names(given["path"])
    return found


def find_password(options: Mapping[str, Any]) -> str | None:
    """The password that the options give or point to, None if they do not."""
    ways = [name for name in ("password", "passwordFile", "passwordEnv") if options[name] is not None]
    if len(ways) > 1:
        raise InvalidOption(f"{' and '.join(ways)} are given: one of them is enough")
    if options["passwordFile"] is not None:
        try:
            return Path(options["passwordFile"]).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise InvalidOption(f"the option passwordFile: {error}") from None
    if options["passwordEnv"] is not None:
        try:
            return os.environ[options["passwordEnv"]]
        except KeyError:
            raise InvalidOption(f"the option passwordEnv: there is no variable {options['passwordEnv']!r}") from None
    given: str | None = options["password"]
    return given
