"""The words of a rabbitmqctl command line: a verb, options that every verb takes, and the rest."""

from __future__ import annotations

from dataclasses import dataclass, field

from leveret.cli.exit_codes import Failed

# Options with a value that people write, and what we call them.
WITH_VALUE = {
    "-n": "node", "--node": "node",
    "-p": "vhost", "--vhost": "vhost",
    "-t": "timeout", "--timeout": "timeout",
    "--formatter": "formatter",
    "--apply-to": "apply-to",
    "--priority": "priority",
    "--description": "description",
    "--tags": "tags",
    "--default-queue-type": "default-queue-type",
    "--format": "format",
    "--global": "global",
    "--per-connection-delay": "ignored", "--limit": "limit",
    "--erlang-cookie": "ignored",
    "--script-name": "ignored",
    "--url": "url", "--socket": "socket", "--user": "user", "--password-file": "password-file",
    "--ca": "ca", "--new-password-file": "new-password-file",
}  # fmt: skip
WITHOUT_VALUE = {
    "-q": "quiet", "--quiet": "quiet",
    "-s": "silent", "--silent": "silent",
    "-l": "longnames", "--longnames": "longnames",
    "--no-table-headers": "no-table-headers",
    "--dry-run": "dry-run",
    "--offline": "offline", "--online": "online", "--local": "local",
    "-e": "if-empty", "--if-empty": "if-empty",
    "-u": "if-unused", "--if-unused": "if-unused",
    "--verbose": "verbose", "--pre-hashed-password": "pre-hashed-password",
    "-g": "global-flag", "--unresponsive": "ignored-flag",
    "-?": "help", "-h": "help", "--help": "help",
}  # fmt: skip


class Misuse(Failed):
    """The command line makes no sense: 64, as rabbitmqctl says."""

    exit_code = 64


class Usage(Exception):
    """A verb was asked how it is written."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


@dataclass
class Words:
    verb: str
    rest: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)

    @property
    def vhost(self) -> str:
        return self.options.get("vhost", "/")

    def has(self, option: str) -> bool:
        return option in self.options

    def number(self, option: str, default: float) -> float:
        text = self.options.get(option, "")
        try:
            return float(text) if text else default
        except ValueError:
            raise Misuse(f"--{option} is {text!r}; it must be a number") from None

    def take(self, *names: str, optional: int = 0) -> list[str]:
        """The words after the verb; the last `optional` names may be missing. Called before anything is done: raises
        Usage if that is all that is asked for."""
        usage = " ".join(f"[{name}]" if at >= len(names) - optional else f"<{name}>" for at, name in enumerate(names))
        if self.has("help"):
            raise Usage(f"leveretctl {self.verb} {usage}".rstrip())
        if not len(names) - optional <= len(self.rest) <= len(names):
            raise Misuse(f"usage: leveretctl {self.verb} {usage}")
        return [*self.rest, *[""] * (len(names) - len(self.rest))]


def parse(words: list[str]) -> Words:
    """Options may stand anywhere; what follows -- is no option."""
    rest: list[str] = []
    options: dict[str, str] = {}
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            rest += words[at:]
            break
        name, sign, value = word.partition("=")
        if name in WITH_VALUE:
            if not sign:
                if at == len(words):
                    raise Misuse(f"{name} needs a value")
                value = words[at]
                at += 1
            options[WITH_VALUE[name]] = value
        elif word in WITHOUT_VALUE:
            options[WITHOUT_VALUE[word]] = ""
        else:
            rest.append(word)
    if not rest and "help" in options:
        return Words("help")
    if not rest:
        raise Misuse("no verb given; see `leveretctl help`")
    return Words(rest[0], rest[1:], options)
