"""Who is let in: every reason, by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leveret.cluster.links.handshake import (
    SAME_USER,
    Identity,
    Proven,
    judge_hello,
    judge_welcome,
    node_uri,
    proven_by,
    say_hello,
)
from leveret.cluster.links.hello import Hello, Purpose, Welcome
from leveret.cluster.links.refusals import ADVICE, Reason, Refusal

CLUSTER = bytes(range(16))
OURS = Identity(CLUSTER, 1, 100, "one", (2, 4))
THEIRS = Identity(CLUSTER, 2, 50, "two", (1, 3))
PROVEN = Proven(CLUSTER, 2)
HELLO = say_hello(THEIRS, 1, 7, Purpose.CONSENSUS)


def judged(hello: Hello, proven: Proven = PROVEN, newest: tuple[int, int] = (50, 6)) -> Welcome | Refusal:
    return judge_hello(OURS, hello, proven, {2, 3}, lambda node, purpose: newest)


def reason(hello: Hello, proven: Proven = PROVEN, newest: tuple[int, int] = (50, 6)) -> Reason | None:
    answer = judged(hello, proven, newest)
    return answer.reason if isinstance(answer, Refusal) else None


def test_a_member_is_welcome_at_the_highest_common_level() -> None:
    assert judged(HELLO) == Welcome(CLUSTER, 1, 100, 3, "one")
    assert reason(HELLO, SAME_USER) is None
    assert reason(replace(HELLO, wanted=0)) is None


@pytest.mark.parametrize(
    ("hello", "why"),
    [
        (replace(HELLO, cluster=bytes(16)), Reason.WRONG_CLUSTER),
        (replace(HELLO, node=3), Reason.WRONG_NODE),
        (replace(HELLO, wanted=3), Reason.WRONG_NODE),
        (replace(HELLO, levels=(5, 9)), Reason.LEVEL),
        (replace(HELLO, levels=(1, 1)), Reason.LEVEL),
        (replace(HELLO, epoch=6), Reason.STALE),
        (replace(HELLO, incarnation=49, epoch=99), Reason.STALE),
    ],
)
def test_what_does_not_belong_is_refused(hello: Hello, why: Reason) -> None:
    assert reason(hello) is why


def test_only_members_come_in_but_nodes_of_the_cluster_may_look() -> None:
    assert reason(replace(HELLO, node=9), Proven(CLUSTER, 9)) is Reason.UNKNOWN_NODE
    assert reason(replace(HELLO, node=1), Proven(CLUSTER, 1)) is Reason.WRONG_NODE
    assert reason(replace(HELLO, node=9, purpose=Purpose.PROBE), Proven(CLUSTER, 9)) is None
    assert reason(replace(HELLO, node=9, purpose=Purpose.PROBE), PROVEN) is Reason.WRONG_NODE


def test_a_new_life_counts_its_connections_anew() -> None:
    assert reason(replace(HELLO, incarnation=51, epoch=1)) is None


@pytest.mark.parametrize(
    ("welcome", "proven", "why"),
    [
        (Welcome(CLUSTER, 2, 50, 2, "two"), PROVEN, None),
        (Welcome(CLUSTER, 2, 50, 2, "two"), SAME_USER, None),
        (Welcome(bytes(16), 2, 50, 2, "two"), SAME_USER, Reason.WRONG_CLUSTER),
        (Welcome(CLUSTER, 2, 50, 2, "two"), Proven(CLUSTER, 3), Reason.WRONG_NODE),
        (Welcome(CLUSTER, 2, 50, 2, "two"), Proven(bytes(16), 2), Reason.WRONG_NODE),
        (Welcome(CLUSTER, 3, 50, 2, "three"), Proven(CLUSTER, 3), Reason.WRONG_NODE),
        (Welcome(CLUSTER, 2, 50, 1, "two"), PROVEN, Reason.LEVEL),
        (Welcome(CLUSTER, 2, 50, 5, "two"), PROVEN, Reason.LEVEL),
    ],
)
def test_the_dialling_side_knows_whom_it_wants(welcome: Welcome, proven: Proven, why: Reason | None) -> None:
    refusal = judge_welcome(OURS, welcome, proven, 2)
    assert (refusal.reason if refusal else None) is why


def test_a_certificate_names_a_node() -> None:
    assert proven_by(node_uri(CLUSTER, 7)) == Proven(CLUSTER, 7)
    for uri in (
        "https://example.org/7",
        "leveret://zz/7",
        "leveret://00/x",
        "leveret://00",
        "leveret://00/99999999999",
    ):
        with pytest.raises(ValueError):
            proven_by(uri)


def test_every_reason_says_what_to_do() -> None:
    assert set(ADVICE) == set(Reason)
