"""The verbs of leveretctl by their names; each is put here where it is written."""

from __future__ import annotations

from collections.abc import Callable

from leveret.cli.client import Client
from leveret.cli.ctl.words import Words

Verb = Callable[[Client, Words], None]
VERBS: dict[str, Verb] = {}


def verb(*names: str) -> Callable[[Verb], Verb]:
    def put(function: Verb) -> Verb:
        for name in names:
            VERBS[name] = function
        return function

    return put
