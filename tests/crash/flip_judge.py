"""What one flipped bit may cost: the record it hit and nothing else, and never in silence."""

from leveret.catalog.commands import Command, SkipQueueIds
from tests.crash.corruption import Messages, Opened, Record, Specimen, open_directory


def judge_flip(specimen: Specimen, file: str, offset: int, bit: int) -> None:
    """Flips one bit; fails unless everything but the record it hit is there, and whatever is missing was reported."""
    octets = specimen.files[file]
    damaged = octets[:offset] + bytes([octets[offset] ^ 1 << bit]) + octets[offset + 1 :]
    hit = specimen.hit(file, offset)
    with specimen.opened({file: damaged}) as opened:
        if file == "format":
            assert opened.damaged_places() == [("format", 0)], "a damaged format file was not reported"
            assert damaged in opened.quarantined(), "no copy in quarantine"
        elif file.startswith("catalog/"):
            _judge_catalog(specimen, opened, hit, damaged)
        elif file.endswith(".index") or hit is None:
            assert opened.messages == specimen.messages, "messages are missing although no record was hit"
        elif file in specimen.indexed:
            _judge_indexed(specimen, opened, hit)
        else:
            _judge_scanned(specimen, opened, hit, damaged)
        if not file.startswith("catalog/"):
            assert opened.commands == specimen.commands, "the catalog changed"
        again = open_directory(opened.root)
        assert (again.messages, again.commands) == (opened.messages, opened.commands), "the second start found others"
        assert again.damages == [], "the second start found the damage again"


def _judge_indexed(specimen: Specimen, opened: Opened, hit: Record) -> None:
    """The index has the notes; a message is missed only when it is read."""
    # Compaction may have copied it since: then this is not the record that is read.
    lost = {target for target in hit.targets if [it for it in specimen.log if target in it.targets][-1] is hit}
    expected: Messages = {}
    for queue, found in specimen.messages.items():
        left = [kept for kept in found if (queue, kept.position) not in lost]
        expected |= {queue: left} if left else {}
    assert opened.messages == expected, "more is missing than the record that was hit, or something came back"
    if expected != specimen.messages:
        assert set(opened.unreadable) == {(hit.number, hit.offset)}, "a lost message was not reported when it was read"


def _judge_scanned(specimen: Specimen, opened: Opened, hit: Record, damaged: bytes) -> None:
    assert opened.messages == specimen.without({hit.sequence}), "not just the record that was hit is missing"
    assert opened.unreadable == [], "a message cannot be read although no bit of it was flipped"
    if hit.sequence <= max(record.synced for record in specimen.log):
        assert (hit.file, hit.offset) in opened.damaged_places(), "damage was not reported, or elsewhere"
        assert damaged in opened.quarantined(), "no copy in quarantine"
    others = [place for place in opened.damaged_places() if place != (hit.file, hit.offset)]
    assert others == [], "damage was reported where there is none"


def _judge_catalog(specimen: Specimen, opened: Opened, hit: Record | None, damaged: bytes) -> None:
    if hit is None or hit.command is None:
        assert opened.messages == specimen.messages and opened.commands == specimen.commands, "nothing was hit"
        return
    assert (hit.file, hit.offset) in opened.damaged_places(), "damage was not reported, or elsewhere"
    assert damaged in opened.quarantined(), "no copy in quarantine"
    subject = _subject(hit.command)
    known = set(specimen.queue_ids.values())
    # The messages of a queue whose deletion was lost may come back.
    messages = {queue: found for queue, found in opened.messages.items() if queue in known}
    assert messages == specimen.messages, "messages are missing although only a command was hit"
    assert messages == opened.messages or type(hit.command).__name__.startswith("Delete"), "a queue from nowhere"
    for command in specimen.commands:
        if subject not in _leans_on(command):
            assert command in opened.commands, f"{command} is missing although another command was hit"
    for command in opened.commands:
        recovered = _subject(command)[0] == "Queue" and _subject(command)[-1].startswith("leveret.recovered-")
        if command not in specimen.commands and not recovered:
            assert subject in _leans_on(command), f"{command} came from nowhere"


def _subject(command: Command) -> tuple[str, ...]:
    """What a command is about."""
    record = getattr(command, command.__struct_fields__[0]) if len(command.__struct_fields__) == 1 else command
    if hasattr(record, "source"):
        return ("Binding", record.vhost, record.source, str(record.to_queue), record.destination, record.routing_key)
    if isinstance(command, SkipQueueIds):
        return ("SkipQueueIds", "")
    what = type(command).__name__.removeprefix("Put").removeprefix("Declare").removeprefix("Delete")
    if what == "Permission":
        return (what, record.vhost, record.user)
    if what in ("User", "Vhost", "GlobalParameter"):
        return (what, record if isinstance(record, str) else record.name)
    return (what, record.vhost, record.name)


def _leans_on(command: Command) -> set[tuple[str, ...]]:
    """What must exist, itself included, for this command to have an effect."""
    subject = _subject(command)
    needed = {subject, ("Vhost", subject[1])}
    if subject[0] == "Binding":
        _, vhost, source, to_queue, destination, _ = subject
        needed |= {("Exchange", vhost, source), ("Queue" if to_queue == "True" else "Exchange", vhost, destination)}
    if subject[0] == "Permission":
        needed.add(("User", subject[2]))
    return needed
