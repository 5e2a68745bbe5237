"""The node's settings: each declared once here, read from a TOML file, overridden by the command line.

Unknown keys and wrong values are refused with their place."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from leveret.broker.reprocess.schedule import parse_choice
from leveret.catalog.arguments import DURATION_MS_MAX
from leveret.errors import ConfigError
from leveret.session.ack_timeouts import ACTIONS
from leveret.storage.store import SEGMENT_BYTES
from leveret.wire import limits

STREAM_PORT_DISTANCE = 5672 - 5552


class ListenSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[listen] where clients connect"""

    host: str = "127.0.0.1"
    port: int = 5672
    management_port: int = 15672
    metrics_port: int = 15692
    # Unless it is set, as far below the port for AMQP as 5552 is below 5672: several nodes need not be told.
    stream_port: int | Literal["off"] | None = None

    @property
    def chosen_stream_port(self) -> int | None:
        """None if the stream protocol is not spoken."""
        if self.stream_port == "off":
            return None
        if self.stream_port is None:
            return max(self.port - STREAM_PORT_DISTANCE, 0)
        return self.stream_port


class LimitSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[limits] how much a client may send or ask for"""

    frame_max: int = limits.FRAME_MAX
    channel_max: int = limits.CHANNEL_MAX
    heartbeat_s: int = limits.HEARTBEAT_S
    body_bytes_max: int = limits.BODY_BYTES_MAX
    handshake_deadline_s: float = limits.HANDSHAKE_DEADLINE_S
    # How long a client may hold a message without acknowledging it, unless its queue or consumer says; 0 for ever.
    ack_timeout_ms: int = 0
    # What is then done: the message goes back, or the channel is closed as RabbitMQ does.
    ack_timeout_action: str = "requeue"


class AuthSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[auth] who may log in from where"""

    loopback_users: tuple[str, ...] = ("guest",)


class StorageSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[storage] how messages are kept on disk"""

    segment_bytes: int = SEGMENT_BYTES
    # False confirms what is written but not synced: what the last moments brought is lost with the power.
    sync: bool = True


class AlarmSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[alarms] when publishers are held up"""

    # Up to 1 a part of what the machine or cgroup gives, above that octets.
    memory_watermark: float = 0.4
    disk_free_bytes_min: int = 64 * 1024 * 1024


class DeadLetterSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[dead_letters] which queues of dead letters are retried by themselves, and when they are given up"""

    # "pattern" for queues of the virtual host /, or "vhost/pattern"; the whole name must match. None: nothing is done.
    queues: tuple[str, ...] = ()
    every_s: float = 3600.0
    # What has been failing for longer goes to the archive; 0 for never.
    archive_after_s: float = 86400.0
    # By way of this exchange with the queue's name as the key; the default exchange's queue is made if it is missing.
    archive_exchange: str = ""
    archive_queue: str = "leveret.archive"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    data_dir: str = ""
    log_level: str = "info"
    cluster_name: str = "leveret"
    listen: ListenSettings = ListenSettings()
    limits: LimitSettings = LimitSettings()
    auth: AuthSettings = AuthSettings()
    storage: StorageSettings = StorageSettings()
    alarms: AlarmSettings = AlarmSettings()
    dead_letters: DeadLetterSettings = DeadLetterSettings()


LOG_LEVELS = ("debug", "info", "warning", "error")
# A watermark such as 40 is a mistaken percentage: what is meant in bytes is more than this.
MEMORY_WATERMARK_BYTES_LEAST = 1024 * 1024
# 1 PiB, exact as a float too.
BYTES_MOST = 2**50
# Ten years.
SECONDS_MOST = 10 * 365 * 24 * 3600
NAME_OCTETS_MAX = 255


def default_data_dir() -> str:
    base = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(base, "leveret")


def load_settings(config: Path | None, overrides: dict[str, Any]) -> Settings:
    """Reads the file, if any, and lays the overrides over it: keys such as "listen.port", values not None."""
    tree: dict[str, Any] = {}
    if config is not None:
        try:
            tree = tomllib.loads(config.read_text("utf-8"))
        except OSError as error:
            raise ConfigError(f"cannot read {config}: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{config} is not valid TOML: {error}") from None
    for key, value in overrides.items():
        if value is not None:
            *sections, name = key.split(".")
            place = tree
            for section in sections:
                place = place.setdefault(section, {})
                if not isinstance(place, dict):
                    raise ConfigError(f"{config}: {section} is {place!r}; it must be a table, [{section}]")
            place[name] = value
    try:
        settings = msgspec.convert(tree, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{config or 'command line'}: {error}") from None
    _check(settings)
    return settings


def _check(settings: Settings) -> None:
    if settings.log_level not in LOG_LEVELS:
        raise ConfigError(f"log_level is {settings.log_level!r}; use one of {', '.join(LOG_LEVELS)}")
    if not settings.listen.host:
        raise ConfigError('listen.host is empty; say "0.0.0.0" or "::" to listen on every address')
    for name in ("port", "management_port", "metrics_port", "stream_port"):
        port = getattr(settings.listen, name)
        if isinstance(port, int) and not 0 <= port <= 65535:
            raise ConfigError(f"listen.{name} is {port}; a port is 0 to 65535, 0 for any free one")
    chosen = settings.limits
    _check_range("frame_max", chosen.frame_max, 8192, 16 * 1024 * 1024)
    _check_range("channel_max", chosen.channel_max, 1, 65535)
    _check_range("heartbeat_s", chosen.heartbeat_s, 0, 65535)
    _check_range("body_bytes_max", chosen.body_bytes_max, 1, 2**31)
    _check_range("handshake_deadline_s", chosen.handshake_deadline_s, 0.1, 3600)
    _check_range("ack_timeout_ms", chosen.ack_timeout_ms, 0, DURATION_MS_MAX)
    if chosen.ack_timeout_action not in ACTIONS:
        action = chosen.ack_timeout_action
        raise ConfigError(f"limits.ack_timeout_action is {action!r}; use one of {', '.join(ACTIONS)}")
    _check_range("segment_bytes", settings.storage.segment_bytes, 64 * 1024, 512 * 1024 * 1024, "storage")
    _check_alarms(settings.alarms)
    _check_dead_letters(settings.dead_letters)


def _check_alarms(alarms: AlarmSettings) -> None:
    watermark = alarms.memory_watermark
    if not (0 < watermark <= 1 or MEMORY_WATERMARK_BYTES_LEAST <= watermark <= BYTES_MOST):
        raise ConfigError(
            f"alarms.memory_watermark is {watermark:g}; it must be a part of the memory, above 0 up to 1, "
            f"or bytes from {MEMORY_WATERMARK_BYTES_LEAST} to {BYTES_MOST}"
        )
    if not 0 <= alarms.disk_free_bytes_min <= BYTES_MOST:
        raise ConfigError(
            f"alarms.disk_free_bytes_min is {alarms.disk_free_bytes_min}; "
            f"it must be from 0 to {BYTES_MOST}, 0 for no alarm"
        )


def _check_dead_letters(chosen: DeadLetterSettings) -> None:
    for text in chosen.queues:
        try:
            parse_choice(text)
        except ValueError as error:
            raise ConfigError(f"dead_letters.queues has {text!r}, which is no pattern of queues: {error}") from None
    _check_range("every_s", chosen.every_s, 0.05, SECONDS_MOST, "dead_letters")
    _check_range("archive_after_s", chosen.archive_after_s, 0, SECONDS_MOST, "dead_letters")
    if not chosen.archive_queue or chosen.archive_queue.startswith("amq."):
        raise ConfigError(f"dead_letters.archive_queue is {chosen.archive_queue!r}; it must be the name of a queue")
    for name in ("archive_exchange", "archive_queue"):
        if len(getattr(chosen, name).encode("utf-8", "replace")) > NAME_OCTETS_MAX:
            raise ConfigError(f"dead_letters.{name} is longer than {NAME_OCTETS_MAX} bytes")


def _check_range(name: str, value: float, least: float, most: float, section: str = "limits") -> None:
    if not least <= value <= most:
        raise ConfigError(f"{section}.{name} is {value}; it must be from {least} to {most}")
