"""What is wrong with a broker that something failed for: what its log says, how it ended, and what it has when it is
started again without faults."""

import signal
from typing import Final

from tests.crash.enumeration.contents import contents_of
from tests.crash.enumeration.evidence import Evidence, findings
from tests.crash.enumeration.launcher import ForkedBroker

# What a broker says when it takes something for damaged.
_DAMAGE_WORDS: Final = ("damage in the store", "is lost", "are passed over", "are lost")
# What Python says when an error was foreseen by nobody.
_UNFORESEEN: Final = ("Traceback (most recent call last)", "never retrieved", "Exception ignored in")
_LINES_SHOWN: Final = 3


def after_restart(broker: ForkedBroker, evidence: Evidence, orderly: bool) -> list[str]:
    """Starts without faults, takes everything out, and looks at the files before and after. `orderly` if the one
    before was stopped and said goodbye."""
    wrong = []
    # Before anything was declared it may not have got so far as to be a data directory.
    if evidence.declared and not broker.is_whole():
        wrong.append("not whole: storage check finds damage before the restart")
    said = len(broker.log_text())
    broker.start()
    contents, seen = contents_of(broker.port)
    status = broker.end(signal.SIGTERM)
    if status != 0:
        wrong.append(f"the restarted broker stopped with status {status}")
    wrong += [
        f"false damage after the restart: {line}" for line in _lines_with(broker.log_text()[said:], _DAMAGE_WORDS)
    ]
    if not broker.is_whole():
        wrong.append("not whole: storage check finds damage after the restart")
    return [*wrong, *seen, *findings(evidence, contents, orderly)]


def in_its_log(broker: ForkedBroker, may_name_damage: bool) -> list[str]:
    """Errors that nobody foresaw, unless the broker has ended for them and says why; and damage, unless what failed may
    look like it."""
    text = broker.log_text()
    wrong = [] if reason_of(broker) else [f"unforeseen: {line}" for line in _lines_with(text, _UNFORESEEN)]
    if wrong:
        wrong.append(f"unforeseen: {_last_error(text)}")
    if not may_name_damage:
        wrong += [f"false damage: {line}" for line in _lines_with(text, _DAMAGE_WORDS)]
    return wrong


def in_its_end(broker: ForkedBroker) -> list[str]:
    """A broker that ended by itself has status 1 and a reason that people understand."""
    status = broker.status()
    if status == 1 and reason_of(broker):
        return []
    return [f"no reason: status {status}, {broker.log_text()[-300:]!r}"]


def reason_of(broker: ForkedBroker) -> str:
    """The last line that is meant for people."""
    lines = [line for line in broker.log_text().splitlines() if line.startswith("leveret: ")]
    return lines[-1] if lines else ""


def _lines_with(text: str, words: tuple[str, ...]) -> list[str]:
    return [line for line in text.splitlines() if any(word in line for word in words)][:_LINES_SHOWN]


def _last_error(text: str) -> str:
    """The line on which a traceback ends."""
    lines = text.splitlines()
    begun = next((at for at, line in enumerate(lines) if "Traceback" in line), 0)
    ends = [line for line in lines[begun + 1 :] if line and not line.startswith((" ", "Traceback"))]
    return ends[0] if ends else ""
