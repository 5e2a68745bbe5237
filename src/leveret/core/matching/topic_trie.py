"""The topic matcher: a trie over the words of the binding keys, walked once per message.

Owns what '*' (one word) and '#' (any number of words, also none) mean. Never looks at arguments or properties.
Made by routing/topic.py, called by the data plane.

The walk holds the set of nodes that the words so far can have led to, and takes one step per word, as one
simulates a nondeterministic automaton. A node joins the set once per step, so a match costs at most
words * nodes and usually words * (literal + star + hash); '#.#.#' and its like cannot make it explode. Where words *
nodes is much, the walk is left between two words when the meter is over, and gone on with later."""

from __future__ import annotations

from typing import Any

import cython

from leveret.core.matching.matcher import Matcher, Steps

if not cython.compiled:
    from leveret.core.codec.pure_octets import same_octets, take
    from leveret.core.matching.matcher import discard_one
    from leveret.core.observe.meter import NODES_SHIFT

    DOT = 0x2E

__all__ = ["TopicMatcher"]


class TopicNode:
    """A place in the trie: one word behind its parent."""

    if not cython.compiled:
        __slots__ = ("children", "destination", "hash", "more", "only", "only_word", "reached", "star", "swallows")

    def __init__(self, swallows):
        self.only_word = None
        self.only = None
        self.children = None
        self.star = None
        self.hash = None
        self.swallows = swallows
        self.destination = None
        self.more = None
        self.reached = 0


def words_of(key):
    """The words between the dots. As in RabbitMQ the empty key has no word at all, but 'a.' has two."""
    return key.split(b".") if key else []


def child_of(node, word):
    if word == b"*":
        return node.star
    if word == b"#":
        return node.hash
    if node.only is not None:
        return node.only if word == node.only_word else None
    return None if node.children is None else node.children.get(word)


def grow_child(node, word):
    """Make the child that `child_of` did not find."""
    if word == b"*":
        node.star = TopicNode(False)
        return node.star
    if word == b"#":
        node.hash = TopicNode(True)
        return node.hash
    child = TopicNode(False)
    if node.children is not None:
        node.children[word] = child
    elif node.only is None:
        node.only_word = word
        node.only = child
    else:
        node.children = {node.only_word: node.only, word: child}
        node.only_word = None
        node.only = None
    return child


def cut_child(node, word):
    """Forget a child. A dict that shrinks to one entry stays a dict until it is empty."""
    if word == b"*":
        node.star = None
    elif word == b"#":
        node.hash = None
    elif node.only is not None:
        node.only_word = None
        node.only = None
    else:
        del node.children[word]
        if not node.children:
            node.children = None
    return 0


def is_bare(node):
    return (
        node.destination is None
        and node.only is None
        and node.children is None
        and node.star is None
        and node.hash is None
    )


def drop_destination(node, destination):
    """Take one binding's destination off a node; KeyError if it is not there."""
    if node.destination is not destination:
        if node.more is None:
            raise KeyError(destination)
        discard_one(node.more, destination)
    else:
        node.destination = None if node.more is None else node.more.pop()
    if node.more is not None and not node.more:
        node.more = None
    return 0


def reach(node, step, active, count):
    """Let a node join the active set, and with it what '#' makes reachable from there by no word at all.

    The set is the first `count` places of a list that is kept from match to match; returns the new count."""
    while node is not None and node.reached != step:
        node.reached = step
        if count < len(active):
            active[count] = node
        else:
            active.append(node)
        count += 1
        node = node.hash
    return count


def advance(active, active_count, following, step, p, start, end):
    """One step: from each active node over the word p[start:end] to the nodes behind it."""
    word = None
    size = end - start
    count = 0
    for at in range(active_count):
        node = active[at]
        if node.swallows:
            count = reach(node, step, following, count)
        if node.star is not None:
            count = reach(node.star, step, following, count)
        if node.only is not None:
            if len(node.only_word) == size and same_octets(p, start, node.only_word, 0, size):
                count = reach(node.only, step, following, count)
        elif node.children is not None:
            # Only a dict needs the word as an object.
            if word is None:
                word = take(p, start, end)
            child = node.children.get(word)
            if child is not None:
                count = reach(child, step, following, count)
    return count


class TopicMatcher(Matcher):
    """Binding keys are patterns of words. Bindings that differ only in their arguments are alike here."""

    if not cython.compiled:
        __slots__ = ("active", "following", "root", "step")

    def __init__(self) -> None:
        Matcher.__init__(self)
        self.root = TopicNode(False)
        self.step = 0
        self.active: list[TopicNode] = []
        self.following: list[TopicNode] = []

    def add(self, key: bytes, arguments: dict[str, Any], destination: object) -> None:
        node = self.root
        for word in words_of(key):
            child = child_of(node, word)
            if child is None:
                child = grow_child(node, word)
                self.steps_max += 1
            node = child
        if node.destination is None:
            node.destination = destination
        elif node.more is None:
            node.more = [destination]
        else:
            node.more.append(destination)
        self.count += 1

    def remove(self, key: bytes, arguments: dict[str, Any], destination: object) -> None:
        words = words_of(key)
        node = self.root
        path = [node]
        for word in words:
            node = child_of(node, word)
            if node is None:
                raise KeyError(key)
            path.append(node)
        drop_destination(node, destination)
        self.count -= 1
        # Prune from the leaf up, so that bindings come and go without the trie growing. The root stays.
        at = len(words)
        while at > 0 and is_bare(path[at]):
            at -= 1
            cut_child(path[at], words[at])
            self.steps_max -= 1
        # The working sets may still hold nodes that were cut.
        self.active = []
        self.following = []

    def collect(self, routing_key: bytes, properties: Any, found: list[object]) -> None:
        p = routing_key
        size = len(routing_key)
        active = self.active
        following = self.following
        self.step += 1
        count = reach(self.root, self.step, active, 0)
        start = 0
        # One turn per word; the last word ends at the end of the key. An empty key has no word.
        while size > 0 and start <= size and count > 0:
            end = start
            while end < size and p[end] != DOT:
                end += 1
            self.step += 1
            self.visited += count
            count = advance(active, count, following, self.step, p, start, end)
            active, following = following, active
            start = end + 1
        harvest(active, count, found)

    def start(self, routing_key: bytes, properties: Any, found: list[object], meter: Any) -> Any:
        steps = TopicSteps(self, routing_key)
        return None if steps.go_on(meter, found) else steps


def harvest(active, count, found):
    """Append the destinations of the first `count` nodes."""
    for at in range(count):
        node = active[at]
        if node.destination is not None:
            found.append(node.destination)
            if node.more is not None:
                found.extend(node.more)
    return 0


class TopicSteps(Steps):
    """A walk that is left between two words. The trie may change meanwhile: bindings that are there all the time are
    found, those that come or go may be. Marks of other walks do no harm, for they count within one word only."""

    if not cython.compiled:
        __slots__ = ("active", "at", "count", "following", "key", "matcher")

    def __init__(self, matcher, key):
        self.matcher = matcher
        self.key = key
        self.active = []
        self.following = []
        # By its own field, which is typed.
        self.matcher.step += 1
        self.count = reach(self.matcher.root, self.matcher.step, self.active, 0)
        self.at = 0

    def go_on(self, meter: Any, found: list[object]) -> bool:
        p = self.key
        size = len(self.key)
        matcher = self.matcher
        while size > 0 and self.at <= size and self.count > 0:
            end = self.at
            while end < size and p[end] != DOT:
                end += 1
            matcher.step += 1
            meter.spent += 1 + (self.count >> NODES_SHIFT)
            self.count = advance(self.active, self.count, self.following, matcher.step, p, self.at, end)
            self.active, self.following = self.following, self.active
            self.at = end + 1
            if meter.spent >= meter.limit:
                break
        if size > 0 and self.at <= size and self.count > 0:
            return False
        harvest(self.active, self.count, found)
        return True
