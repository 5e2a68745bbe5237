"""What a body says, by its content type: the columns that bronze rows get on their way to silver.

JSON (`application/json` and `.../...+json`) must be JSON, `text/*` must be text in its charset, which is UTF-8 unless
the content type names another one; then `payload` has the text. A body that is not what its content type says gets an
`error` instead, and belongs into quarantine. All other bodies, those without a content type, those that are
compressed (`content_encoding`), and text in a charset that Spark does not know stay octets, with neither.

Never drops a row, and never looks at anything but the row."""

from __future__ import annotations

import json

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType

__all__ = ["parse", "published_at", "tenant"]

TENANT_HEADERS = ("x-tenant", "tenant")
PUBLISHED_HEADER = "x-published-at-ms"
# Texts about how a text is written, rather than how it is packed; some publishers put them here.
PLAIN_ENCODINGS = ("", "identity", "utf-8", "utf8")
UTF8 = ("utf-8", "utf8", "us-ascii", "ascii")
LATIN = ("iso-8859-1", "latin1")


def parse(rows: DataFrame) -> DataFrame:
    """The rows with `payload`, `error` and `tenant`."""
    kind = F.lower(F.trim(F.split("content_type", ";")[0]))
    charset = F.lower(F.regexp_extract("content_type", r"(?i)charset\s*=\s*\"?([^\";\s]+)", 1))
    is_plain = F.lower(F.trim(F.coalesce("content_encoding", F.lit("")))).isin(*PLAIN_ENCODINGS)
    is_json = F.coalesce(is_plain & ((kind == "application/json") | kind.endswith("+json")), F.lit(False))
    is_text = F.coalesce(is_plain & kind.startswith("text/"), F.lit(False))
    is_utf8 = (charset == "") | charset.isin(*UTF8)

    text = F.try_validate_utf8(F.col("body").cast("string"))
    wrong = F.concat(F.lit("its content type is "), kind, F.lit(", and it is no "))
    error = (
        F.when((is_json | is_text & is_utf8) & text.isNull(), F.concat(wrong, F.lit("UTF-8")))
        # JSON is UTF-8, whatever a charset says. Others are not sent to Python, which gets nulls.
        .when(is_json, F.concat(wrong, F.lit("JSON: "), what_is_no_json(F.when(is_json, text))))
    )
    rows = rows.withColumn("error", error)
    is_latin = is_text & charset.isin(*LATIN)
    payload = (
        F.when(F.col("error").isNotNull(), None)
        .when(is_json | is_text & is_utf8, text)
        .when(is_latin, F.decode("body", "ISO-8859-1"))
    )
    return rows.withColumns({"payload": payload, "tenant": tenant()})


@F.arrow_udf(returnType=StringType())
def what_is_no_json(texts: pa.Array) -> pa.Array:
    """What is wrong with each text as JSON (RFC 8259: one value, and nothing behind it); null if nothing is. Spark's
    own parser passes over what comes behind a value, and refuses two fields of one name."""
    return pa.array([None if text is None else _what_is_wrong(text) for text in texts.to_pylist()], pa.string())


def _what_is_wrong(text: str) -> str | None:
    try:
        # Numbers are looked at, not made: they may have any length.
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
    except RecursionError:
        return "it is nested too deeply"
    except ValueError as error:
        return str(error)
    return None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def tenant() -> Column:
    return F.coalesce(*(F.col("headers")[name] for name in TENANT_HEADERS))


def published_at() -> Column:
    """When the publisher says that it was published: to the millisecond by its header, else to the second by its
    property; null if it says nothing."""
    header = F.timestamp_millis(F.col("headers")[PUBLISHED_HEADER].try_cast("bigint"))
    return F.coalesce(header, F.col("message_timestamp"))
