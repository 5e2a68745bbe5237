"""Every error Leveret raises on purpose: one tree, one table of AMQP reply codes.

    LeveretError
    ├── AmqpError              a reply code, a text, and what it ends
    │   ├── SoftError          the channel closes, the connection goes on
    │   │   └── AlreadyExists  what is to be made is there
    │   └── HardError          the connection closes
    ├── Forbidden              somebody whom we know may not do this
    ├── LoginRefused           somebody is not let in, and why
    ├── InvalidPolicy          a policy that cannot be taken, with the key that is to blame
    ├── InvalidRequest         what an operator asks for makes no sense, and why
    ├── InvalidDefinitions     definitions that cannot be imported, with the place of every problem
    ├── ReplayError            a job of reprocessing that cannot be had
    │   ├── InvalidReplay      what was asked for makes no sense, with the field that is to blame
    │   ├── ReplayNotFound     there is no such virtual host, queue, exchange or job
    │   └── ReplayConflict     the queue has a job already, or belongs to a connection
    ├── BackupError            a backup that cannot be made, or cannot be restored, and why
    │   └── BackupConflict     another one is being made
    ├── TooManyLeases          somebody holds as many messages over HTTP as he may
    ├── ClientError            what the client library raises; the others of it are in client/errors.py
    │   ├── StaleDelivery      its channel is gone: it cannot be settled, and will be delivered again
    │   └── AlreadySettled     it was acknowledged or rejected before
    ├── ClusterError           nodes that cannot work together, and why
    │   ├── AskFailed          another node has not answered
    │   └── JoinRefused        a node is not taken into the cluster
    ├── ConfigError            a setting that cannot be used, with its place
    ├── StartupError           the node cannot start, and why
    └── StoppedByFailure       the node had to stop, and why

Raised by any floor; turned into AMQP methods by session/ alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReplyCode:
    code: int
    name: str
    ends_connection: bool
    help: str


REPLY_CODES: dict[int, ReplyCode] = {
    row.code: row
    for row in (
        ReplyCode(311, "CONTENT_TOO_LARGE", False, "the message is larger than the broker or the queue takes"),
        ReplyCode(312, "NO_ROUTE", False, "a mandatory message reached no queue; sent with basic.return"),
        ReplyCode(313, "NO_CONSUMERS", False, "an immediate message found no consumer; sent with basic.return"),
        ReplyCode(320, "CONNECTION_FORCED", True, "an operator or the broker's shutdown closed the connection"),
        ReplyCode(402, "INVALID_PATH", True, "the virtual host is not known"),
        ReplyCode(403, "ACCESS_REFUSED", False, "the user may not do this, or the login failed"),
        ReplyCode(404, "NOT_FOUND", False, "the queue or exchange does not exist"),
        ReplyCode(405, "RESOURCE_LOCKED", False, "the queue belongs to another connection"),
        ReplyCode(406, "PRECONDITION_FAILED", False, "the request does not fit what exists, or an argument is bad"),
        ReplyCode(501, "FRAME_ERROR", True, "a frame is malformed or larger than negotiated"),
        ReplyCode(502, "SYNTAX_ERROR", True, "a field of a method is malformed"),
        ReplyCode(503, "COMMAND_INVALID", True, "the method is not allowed here, or names an unknown type"),
        ReplyCode(504, "CHANNEL_ERROR", True, "the channel is not open, or is open already"),
        ReplyCode(505, "UNEXPECTED_FRAME", True, "a frame came that the conversation does not allow here"),
        ReplyCode(506, "RESOURCE_ERROR", True, "the broker lacks the resources for this"),
        ReplyCode(530, "NOT_ALLOWED", True, "the request is against a rule of the broker"),
        ReplyCode(540, "NOT_IMPLEMENTED", True, "the broker does not do this"),
        ReplyCode(541, "INTERNAL_ERROR", True, "the broker made a mistake; its log says more"),
    )
}


TEXT_CHARACTERS_MAX = 1000


class LeveretError(Exception):
    """The root of everything raised on purpose."""


class AmqpError(LeveretError):
    """An AMQP reply code with its text. `method` is the class and method id that caused it, 0 if unknown."""

    ends_connection: bool

    def __init__(self, code: int, text: str, method: int = 0) -> None:
        super().__init__(code, text, method)
        self.code = code
        # A text may quote what a client sent: not at any length, because it is logged.
        self.text = text if len(text) <= TEXT_CHARACTERS_MAX else text[:TEXT_CHARACTERS_MAX] + "..."
        self.method = method

    @property
    def reply_text(self) -> str:
        """What goes into the close method: the code's name, then what happened."""
        return f"{REPLY_CODES[self.code].name} - {self.text}"

    def __str__(self) -> str:
        return f"{self.code} {self.reply_text}"


class SoftError(AmqpError):
    """Closes the channel it happened on."""

    ends_connection = False


class AlreadyExists(SoftError):
    """What is to be made, and must be new, is there already."""


class HardError(AmqpError):
    """Closes the whole connection."""

    ends_connection = True


class Forbidden(LeveretError):
    """Somebody whom we know lacks the tag, or may not enter the virtual host, that a request of an operator takes.
    AMQP's own refusals are SoftError 403."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return self.text


class LoginRefused(LeveretError):
    """A login that failed. The reason is for the log: whoever tried hears only that it failed, or that he came from
    the wrong place."""

    def __init__(self, reason: str, wrong_place: bool = False, suspended: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wrong_place = wrong_place
        # The password was right: no guess that failed.
        self.suspended = suspended

    def __str__(self) -> str:
        return self.reason


class InvalidPolicy(LeveretError):
    """A policy that cannot be taken. `key` is the key of its definition that is to blame, or one of its own fields:
    name, pattern, priority, apply-to or definition."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(key, text)
        self.key = key
        # A text quotes what somebody sent: not at any length.
        self.text = text if len(text) <= TEXT_CHARACTERS_MAX else text[:TEXT_CHARACTERS_MAX] + "..."

    @property
    def reason(self) -> str:
        """The text as RabbitMQ's HTTP API and rabbitmqctl present it."""
        return f"Validation failed\n\n{self.text}\n"

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


class InvalidRequest(LeveretError):
    """What an operator asks for makes no sense: a name that is too long, a limit nobody knows, a user who is not there.
    The text never quotes a password."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text if len(text) <= TEXT_CHARACTERS_MAX else text[:TEXT_CHARACTERS_MAX] + "..."

    def __str__(self) -> str:
        return self.text


class InvalidDefinitions(LeveretError):
    """Definitions of which nothing was imported. `problems` are pairs of a place, such as queues[3].arguments, and what
    is wrong there."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        shown = "\n".join(f"{place}: {text}" for place, text in self.problems)
        count = len(self.problems)
        return f"{count} problem{'' if count == 1 else 's'}, nothing was imported\n{shown}"


class ReplayError(LeveretError):
    """A job of reprocessing that cannot be had."""

    def __init__(self, *told: str) -> None:
        super().__init__(*told)
        text = told[-1]
        # A text quotes what somebody sent: not at any length.
        self.text = text if len(text) <= TEXT_CHARACTERS_MAX else text[:TEXT_CHARACTERS_MAX] + "..."

    def __str__(self) -> str:
        return self.text


class InvalidReplay(ReplayError):
    """`field` is the field of what was asked for that is to blame, such as limit or filter.reason."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(field, text)
        self.field = field

    def __str__(self) -> str:
        return f"{self.field}: {self.text}"


class ReplayNotFound(ReplayError):
    """Something that was named does not exist."""


class ReplayConflict(ReplayError):
    """What was asked for cannot be had now."""


class BackupError(LeveretError):
    """A backup that cannot be made, or that cannot be restored; the text names the file."""


class BackupConflict(BackupError):
    """Another backup is being made."""


class TooManyLeases(LeveretError):
    """Somebody has fetched as many messages without acknowledging them as may be held over HTTP."""


class ClusterError(LeveretError):
    """Nodes cannot work together; the text says why and what to do."""


class AskFailed(ClusterError):
    """Another node has not answered a question: too late, too busy, or the link to it is gone."""


class JoinRefused(ClusterError):
    """A node is not taken into the cluster."""


class ConfigError(LeveretError):
    """A setting that cannot be used; the text names the place, the value and what would do."""


class StartupError(LeveretError):
    """The node cannot start; the text says why and what to do."""


class StoppedByFailure(LeveretError):
    """The node ran and had to stop, because what it needs has failed."""


class ClientError(LeveretError):
    """The root of what the client library raises."""


class StaleDelivery(ClientError):
    """A delivery whose channel is gone: it cannot be settled, and will be delivered again."""


class AlreadySettled(ClientError):
    """A delivery that was acknowledged or rejected before."""
