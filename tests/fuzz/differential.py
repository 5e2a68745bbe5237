"""Prints what the broker says to scripts made from seeds, so that two builds of it can be compared line by line.

python -m tests.fuzz.differential FIRST COUNT          one line a seed: seed, digest, how it ended
python -m tests.fuzz.differential FIRST 1 --show       the whole conversation of one seed"""

from __future__ import annotations

import hashlib
import sys

from tests.fuzz.chooser import Chooser, DiceChooser
from tests.fuzz.conversation import check_answers, check_nothing_left
from tests.fuzz.frames import cut_frames
from tests.fuzz.script import converse, spoil, write_opening
from tests.fuzz.workbench import Line, Workbench


def play(chooser: Chooser, bench: Workbench) -> Line:
    line = bench.connect()
    opening = write_opening(chooser)
    line.say(spoil(chooser, opening) if chooser.number(0, 9) == 0 else opening)
    converse(chooser, line, chooser.pick([0, 1, 2, 4, 16]), chooser.number(1, 25))
    return line


def digest(chooser: Chooser) -> str:
    """Everything said, everything answered, and everything left in the queues."""
    with Workbench() as bench:
        line = play(chooser, bench)
        told = check_answers(bytes(line.heard))
        ended = line.ended
        line.hang_up()
        check_nothing_left(bench, line, 0)
        left = [(queue.name, queue.ready_count(), queue.published_total) for queue in bench.queues()]
    whole = hashlib.blake2b(repr((bytes(line.spoken), bytes(line.heard), ended, left)).encode(), digest_size=12)
    return f"{whole.hexdigest()} {told[-1].name if told else '-'} {ended}"


def show(seed: int) -> None:
    with Workbench() as bench:
        line = play(DiceChooser(seed), bench)
        sys.stdout.write(f"said {bytes(line.spoken)!r}\n")
        for frame in cut_frames(bytes(line.heard)):
            sys.stdout.write(f"heard {frame}\n")
        sys.stdout.write(f"ended {line.ended}\n")


def main(first: int, count: int) -> None:
    for seed in range(first, first + count):
        sys.stdout.write(f"{seed} {digest(DiceChooser(seed))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    if "--show" in sys.argv:
        show(int(sys.argv[1]))
    else:
        main(int(sys.argv[1]), int(sys.argv[2]))
