"""The error tree and the table of reply codes."""

from __future__ import annotations

import pickle

import pytest

from leveret.errors import (
    REPLY_CODES,
    AlreadyExists,
    AmqpError,
    ConfigError,
    HardError,
    InvalidReplay,
    LeveretError,
    ReplayConflict,
    ReplayError,
    ReplayNotFound,
    SoftError,
    StartupError,
)


def test_a_reply_text_is_the_codes_name_and_what_happened() -> None:
    error = SoftError(404, "no queue 'q' in vhost '/'", 0x32000A)
    assert error.reply_text == "NOT_FOUND - no queue 'q' in vhost '/'"
    assert str(error) == "404 NOT_FOUND - no queue 'q' in vhost '/'"
    assert (error.code, error.text, error.method) == (404, "no queue 'q' in vhost '/'", 0x32000A)


def test_soft_errors_end_the_channel_and_hard_ones_the_connection() -> None:
    assert SoftError(404, "").ends_connection is False
    assert HardError(504, "").ends_connection is True


def test_everything_raised_on_purpose_has_one_root() -> None:
    assert all(issubclass(kind, LeveretError) for kind in (AmqpError, SoftError, HardError, ConfigError, StartupError))
    assert issubclass(SoftError, AmqpError) and issubclass(HardError, AmqpError)
    assert not issubclass(SoftError, HardError)
    assert issubclass(AlreadyExists, SoftError)


def test_a_refused_job_says_which_field_is_to_blame_and_not_at_any_length() -> None:
    error = InvalidReplay("filter.reason", "x" * 5000)
    assert (error.field, str(error)[:20], len(error.text)) == ("filter.reason", "filter.reason: xxxxx", 1003)
    assert all(issubclass(kind, ReplayError) for kind in (InvalidReplay, ReplayNotFound, ReplayConflict))


@pytest.mark.parametrize(
    "error",
    [
        SoftError(404, "gone", 5),
        HardError(501, "bad"),
        AlreadyExists(406, "there"),
        ConfigError("port is 0"),
        InvalidReplay("limit", "it is -1"),
        ReplayConflict("there is one"),
    ],
)
def test_an_error_survives_pickling_as_process_pools_and_test_runners_do(error: LeveretError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("code", sorted(REPLY_CODES))
def test_every_code_has_amqps_name_and_a_help_text(code: int) -> None:
    row = REPLY_CODES[code]
    assert row.code == code
    assert row.name.replace("_", "").isupper()
    assert row.help


def test_the_table_has_the_codes_of_amqp_with_their_scope() -> None:
    hard = {code for code, row in REPLY_CODES.items() if row.ends_connection}
    assert hard == {320, 402, 501, 502, 503, 504, 505, 506, 530, 540, 541}
    assert set(REPLY_CODES) - hard == {311, 312, 313, 403, 404, 405, 406}
