"""Suspended users: whose rights may be older than the last word on them, because the catalog has lost commands.

Among what was lost may have been the deletion of a user, a permission taken away, a new password. Nobody can tell, so
every user who is there after such a start is suspended: `auth.login` refuses them until an operator releases them.
The local operator of the unix socket is no user of the catalog, and so can. Suspensions are kept in the catalog itself:
further starts know them, and backups have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leveret.broker.broker import Broker
from leveret.catalog import commands
from leveret.catalog.records import Suspension
from leveret.errors import InvalidRequest
from leveret.runtime.log import get_logger

log = get_logger(__name__)

ALARM = "suspended_users"
REASON_CHARACTERS_MAX = 500
WHAT_TO_DO = "look at users and permissions, then run `leveret users release`"


def suspend_everybody(broker: Broker, damages: Sequence[str]) -> None:
    """At a start that found the catalog damaged, unless the operator has decided before."""
    lost = "; ".join(damages)[:REASON_CHARACTERS_MAX] or "commands of the catalog are lost"
    if not broker.logins.settings.suspends_on_damage:
        log.error("the catalog was damaged, users are let in all the same as auth.damaged_catalog says", damage=lost)
        return
    since_s = int(broker.clock.wall())
    made = [commands.SuspendUser(Suspension(name, lost, since_s)) for name in broker.catalog.users]
    if made:
        broker.apply(commands.Together(tuple(made)))


def show_suspensions(broker: Broker) -> None:
    """Sets the alarm or clears it, as there are suspended users or not."""
    count = len(broker.catalog.suspensions)
    if not count:
        broker.clear_alarm(ALARM)
        return
    reason = f"the catalog was damaged, so {count} users are not let in; {WHAT_TO_DO}"
    log.error("logins are refused: rights that were taken away may be back", users=count, what_to_do=WHAT_TO_DO)
    broker.raise_alarm(ALARM, reason, blocks=False)


def release(broker: Broker, names: Iterable[str]) -> None:
    """All of them or none; raises InvalidRequest for one who is not suspended."""
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in broker.catalog.suspensions:
            raise InvalidRequest(f"the user {name!r} is not suspended")
    if wanted:
        broker.apply(commands.Together(tuple(commands.ReleaseUser(name) for name in wanted)))
        show_suspensions(broker)
