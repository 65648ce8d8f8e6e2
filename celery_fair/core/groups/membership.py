"""A group of workers that shares partitions: what each member does, and what it may rely on.

Terms
-----
A *member* is a worker that has a lease. An *owner* of a partition may consume it. A *grant* makes a
member an owner and has a number, the *fencing token*, which grows with each grant of the
partition: what is done under an old one can be told from what is done under a new one. The *plan*
says who should be the owner.

The group is one document in a store. A member reads it, takes a `turn` on it, and writes it back if
nobody else has written since (compare and set); otherwise it starts over. So turns happen one after
another, and this module need not know anything about stores. Times are the store's clock.

A turn
------
======================================  ==============================================
what is found                           what is done
======================================  ==============================================
a member's lease has run out            it is no member; it owns nothing
I am no member                          I join; I own nothing. Not where a living member is
                                        on another broker, see `elsewhere`
I am a member                           my lease begins anew
I leave                                 I am no member; I own nothing
members or partitions have changed      a new plan, for those members that do not stop
I own what the plan gives to another    I stop consuming it; when I hold nothing of it
                                        any more, nobody owns it
nobody owns what the plan gives me      I own it, and its token grows
a partition was taken out               its owner stops as above; its token is kept
======================================  ==============================================

Invariants
----------
1. *Never two owners.* Only a partition that nobody owns can be granted. An owner stops being one in
   its own turn, after it has stopped consuming, or because its lease has run out by the store's
   clock. So a member stops a margin before that at the latest, by its own clock: it counts from the
   moment it *asked* for the lease, which is earlier than the moment the store granted it. Clocks
   may show different times; they only have to run at the same speed, to within the margin. If the
   store's clock steps forward, no lease runs out for a margin, in which those who are alive renew
   theirs: by the store's clock, too, a lease is renewed a heartbeat after it began.
2. *No partition is unowned for long once membership is stable.* Every turn leads towards the plan:
   an owner that is not the planned one stops within a bounded time, and the planned one is a member
   and takes turns, or loses its lease; then there is a new plan.

A member that is frozen, by a debugger or a sleeping machine, cannot know that time passes: when it
wakes, a running task goes on although the lease is over. That is what the token is for.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from celery_fair.core.groups.assignment import assign

STOPS = "none, as it stops"
"""In place of the broker from which a member consumes that only waits for its last tasks to end: it
keeps what it has until it leaves, and is to own nothing."""


@dataclass(frozen=True)
class Terms:
    """What all members of a group agree on, in seconds; all of it follows from the lease.

    Attributes:
        lease: how long a member remains one without taking a turn.
    """

    lease: float = 60.0

    @property
    def heartbeat(self) -> float:
        """Until a member takes a turn though nothing is new: so early that one may fail."""
        return self.lease * 25 / 60

    @property
    def margin(self) -> float:
        """Between the end of a member's consumption and that of its lease.

        What the two clocks may run apart in a lease, and what a member may stand still for between
        a look at its clock and the start of a task.
        """
        return self.lease / 12

    @property
    def safe(self) -> float:
        """For which a member consumes without another turn."""
        return self.lease - self.margin

    @property
    def patience(self) -> float:
        """For which running work keeps its partition from the next owner: as long as a dead one's.

        Others wait no longer for who is known to be alive than for who may be.
        """
        return self.lease


@dataclass(frozen=True)
class Grant:
    """Who owns a partition; None if nobody does, and the token is that of the last owner.

    A token is greater than the one before, and than the store's clock, in milliseconds: even if a
    store loses the group, or its last grants, the next tokens are greater than the earlier ones.
    """

    owner: str | None = None
    token: int = 0
    since: float = 0.0


@dataclass(frozen=True)
class Group:
    """The document. Never changed; a turn returns another.

    Attributes:
        active: the partitions that are to be consumed.
        out: those that were taken out, and are to be put back.
        grants: by partition; also of those that were taken out, whose tokens must not come again.
        members: when the lease of each ends.
        brokers: of the members that know it, the broker that they consume from, or `STOPS`.
        plan: who is to own which.
    """

    active: frozenset[str] = frozenset()
    out: frozenset[str] = frozenset()
    grants: Mapping[str, Grant] = field(default_factory=dict)
    members: Mapping[str, float] = field(default_factory=dict)
    plan: Mapping[str, str] = field(default_factory=dict)
    brokers: Mapping[str, str] = field(default_factory=dict)

    @property
    def partitions(self) -> frozenset[str]:
        """All that there are, in or out."""
        return self.active | self.out

    def owned_by(self, member: str) -> dict[str, int]:
        """Return a member's partitions, with their tokens."""
        return {name: g.token for name, g in self.grants.items() if g.owner == member}

    def taking_out(self, names: Collection[str]) -> "Group":
        """Return the group with partitions taken out: their owners stop, and nobody else begins."""
        gone = self.active.intersection(names)
        return replace(self, active=self.active - gone, out=self.out | gone)

    def putting_back(self, names: Collection[str]) -> "Group":
        """Return the group with partitions put back that had been taken out."""
        back = self.out.intersection(names)
        return replace(self, active=self.active | back, out=self.out - back)

    def unplanned(self) -> "Group":
        """Return the group without its plan: the next turn makes one as if all had just joined."""
        return replace(self, plan={})

    def of(self, names: frozenset[str]) -> "Group":
        """Return the group for just these partitions; what was taken out of them stays out."""
        return replace(self, active=names - self.out, out=names & self.out)


@dataclass(frozen=True)
class Turn:
    """What came of a turn.

    Attributes:
        group: as it is to be written.
        granted: my partitions and their tokens, to be consumed.
        revoked: mine, too, and to be given up.
        changed: whether anything but leases is another now, or mine was to be renewed.
    """

    group: Group
    granted: Mapping[str, int]
    revoked: frozenset[str]
    changed: bool


def turn(
    group: Group,
    me: str,
    now: float,
    terms: Terms,
    holds: Collection[str] = (),
    leaving: bool = False,
    in_doubt: bool = False,
    broker: str = "",
) -> Turn:
    """Take a member's turn.

    Arguments:
        me: the member's name, which no other member ever had.
        now: the store's clock, in seconds.
        holds: partitions that I consume, or of which something still runs here.
        leaving: I hold nothing, and will not come back under this name.
        in_doubt: leases that have run out count all the same; see
            `celery_fair.core.groups.tenure`.
        broker: from which I consume; "" if that is not known; `STOPS`.
    """
    before = group
    gone = set(group.members.keys() - living(group, now, in_doubt))
    group = _without(group, gone | {me} if leaving else gone)
    if not leaving:
        group = replace(
            group,
            members={**group.members, me: now + terms.lease},
            brokers={**group.brokers, me: broker} if broker else group.brokers,
        )
    group = _planned(group)
    group = _released(group, me, now, holds)
    if not leaving:
        group = _granted(group, me, now)
    owned = group.owned_by(me)
    mine = {name: token for name, token in owned.items() if group.plan.get(name) == me}
    changed = replace(before, members={}) != replace(group, members={})
    changed |= before.members.keys() != group.members.keys()
    changed |= before.members.get(me, now) - now <= terms.lease - terms.heartbeat
    return Turn(group, mine, frozenset(owned.keys() - mine.keys()), changed)


def living(group: Group, now: float, in_doubt: bool = False) -> frozenset[str]:
    """Return the members whose leases have not run out; all of them while that is in doubt."""
    return frozenset(name for name, ends in group.members.items() if in_doubt or now < ends)


def elsewhere(group: Group, broker: str, members: Collection[str]) -> dict[str, str]:
    """Return those of some members that are known to be on another broker, with theirs.

    If one of them is, the partitions are another app's, whose group has the same name: I may not
    join, or those that I own would be consumed on the wrong broker, and on theirs by nobody. Who
    is a member already stays one. All of them reconnect, each in its time, where a broker that was
    emptied or renamed has become another.
    """
    known = {name: at for name, at in group.brokers.items() if name in members and at != STOPS}
    return {name: at for name, at in known.items() if broker not in ("", STOPS, at)}


def _without(group: Group, gone: set[str]) -> Group:
    if group.members.keys().isdisjoint(gone):
        return group
    return replace(
        group,
        members={name: ends for name, ends in group.members.items() if name not in gone},
        brokers={name: at for name, at in group.brokers.items() if name not in gone},
        grants={
            name: replace(grant, owner=None) if grant.owner in gone else grant
            for name, grant in group.grants.items()
        },
    )


def _planned(group: Group) -> Group:
    stay = {name for name in group.members if group.brokers.get(name) != STOPS}
    if _fits(group, stay):
        return group
    return replace(group, plan=assign(stay, group.active, group.plan))


def _fits(group: Group, members: set[str]) -> bool:
    """Whether the plan is one for these members, and the group's partitions."""
    plan = group.plan
    if not members:
        return not plan
    least, more = divmod(len(group.active), len(members))
    has = Counter(plan.values())
    return (
        plan.keys() == group.active
        and has.keys() <= members
        and all(least <= has[name] <= least + (more > 0) for name in members)
    )


def _released(group: Group, me: str, now: float, holds: Collection[str]) -> Group:
    done = [n for n in group.owned_by(me) if group.plan.get(n) != me and n not in holds]
    freed = {name: replace(group.grants[name], owner=None, since=now) for name in done}
    return replace(group, grants={**group.grants, **freed}) if freed else group


def _granted(group: Group, me: str, now: float) -> Group:
    grants = {}
    for name in (name for name, owner in group.plan.items() if owner == me):
        last = group.grants.get(name, Grant())
        if last.owner is None:
            grants[name] = Grant(me, max(last.token, int(now * 1000)) + 1, now)
    return replace(group, grants={**group.grants, **grants}) if grants else group
