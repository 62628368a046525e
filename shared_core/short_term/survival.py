"""How likely a prefix is found again: learned from what became of earlier prompts, per scope and per conversation.

A *role* is a kind of boundary: the end of the tools, of a system block, of the stable part, of the tail. Each
request uses the prefix of each role; the use is *settled* at each age it reaches: survived, if a later request
has the same prefix and came until then; else not. So P = P(unchanged) * P(gap <= lifetime) is one frequency,
and a conversation that nobody continued counts as well. A beta prior speaks before anything was seen; counts
fade, so that what was learned long ago gives way. Times are epoch seconds, given by the caller.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from shared_core.short_term.rules import TTL_SECONDS

Role = tuple[Hashable, ...]
HORIZONS: Final = (TTL_SECONDS["5m"], 600.0, 1200.0, 2400.0, TTL_SECONDS["1h"])
"""Ages in seconds at which an open use is looked at: five minutes, and four steps from there to the hour."""
FADE: Final = 0.99
"""What a settled use still counts after the next one: about the last hundred decide."""
BORROWED: Final = 12.0
"""How many uses' worth of the scope's experience a conversation starts from."""
_PRIORS: Final[Mapping[Hashable, tuple[float, float]]] = {
    "tools": (3.0, 1.0),
    "system": (2.0, 1.0),
    "after": (0.2, 1.8),
}
"""Prior successes and failures by kind of role, (1, 1) for a kind not named.

Tools change less than the system, and it less than the messages, so their ends are marked while nothing is known;
what follows a volatile block is taken for lost until seen otherwise.
"""
_LATE: Final = (0.0, 0.5)
"""Prior of each step after five minutes: nobody comes back late, until one does.

It weighs half a use. Scopes are of two kinds, those where everybody comes back within the hour and those where nobody
does, so the first one to be late tells nearly all.
"""
_OWN: Final[Mapping[Hashable, Sequence[tuple[float, float]]]] = {
    kind: ((good, good + bad), *[(_LATE[0], sum(_LATE))] * (len(HORIZONS) - 1))
    for kind, (good, bad) in {**_PRIORS, None: (1.0, 1.0)}.items()
}
"""The priors by kind of role, for each age: how many came back, of how many uses."""
_MOST_USES = 4096


class Odds:
    """Per role, how many uses survived; a parent lends its experience, without one the ``siblings`` give the prior's mean.

    Kept are hazards: of the uses that reached the age before, how many came back until this one. So
    P5 = h_0 and P60 = 1 - product of (1 - h_k) (Kaplan and Meier's estimate), and an hour need not pass before it
    counts that nobody came; a frequency of returns within the hour would know the returns at once and the others late.
    """

    def __init__(self, parent: Odds | None = None, siblings: Mapping[str, Odds] | None = None) -> None:
        self._parent = parent
        self._siblings: Mapping[str, Odds] = {} if siblings is None else siblings
        self._tallies: dict[Role, list[list[float]]] = {}

    def settle(self, role: Role, horizon: int, *, survived: bool) -> None:
        """Count one use that reached this age, here and in the parent."""
        tallies = self._tallies.get(role)
        if tallies is None:
            tallies = self._tallies[role] = [[0.0, 0.0] for _ in HORIZONS]
        tally = tallies[horizon]
        tally[0] = tally[0] * FADE + 1.0
        tally[1] = tally[1] * FADE + survived
        if self._parent is not None:
            self._parent.settle(role, horizon, survived=survived)

    def revise(self, role: Role, horizon: int) -> None:
        """Turn a use that was counted as lost at every age into one that came back at this one after all."""
        tallies = self._tallies.get(role)
        if tallies is not None:
            tallies[horizon][1] = min(tallies[horizon][1] + 1.0, tallies[horizon][0])
            for tally in tallies[horizon + 1 :]:
                tally[0] = max(tally[0] - 1.0, tally[1])
        if self._parent is not None:
            self._parent.revise(role, horizon)

    def of(self, role: Role) -> tuple[float, float]:
        """The probabilities that a prefix of this role is found again within 5 minutes and within 1 hour."""
        hazards = self.hazards(role)
        lost = 1.0
        for hazard in hazards:
            lost *= 1.0 - hazard
        return hazards[0], max(1.0 - lost, hazards[0])

    def seen(self, role: Role) -> float:
        """How many uses the estimate for this role stands on, the prior's and the borrowed ones among them."""
        tallies = self._tallies.get(role)
        settled = tallies[0][0] if tallies is not None else 0.0
        if self._parent is None:
            return settled + sum(_PRIORS.get(role[0], (1.0, 1.0)))
        return settled + min(self._parent.seen(role), BORROWED)

    def hazards(self, role: Role) -> list[float]:
        """Per age: of the uses that reached the age before, the share that came back until this one."""
        tallies = self._tallies.get(role)
        if self._parent is not None:
            priors = self._parent.hazards(role)
            if tallies is None:
                return priors
            return [(s + BORROWED * prior) / (n + BORROWED) for (n, s), prior in zip(tallies, priors)]  # noqa: B905
        own = _OWN.get(role[0], _OWN[None])
        if len(self._siblings) > 1:
            own = self._moved(own, role)
        if tallies is None:
            return [good / weight for good, weight in own]
        return [(s + good) / (n + weight) for (n, s), (good, weight) in zip(tallies, own)]  # noqa: B905

    def tallies(self, role: Role) -> list[list[float]] | None:
        """Per age, how many uses reached it and how many of them came back, faded; None for a role that was not used."""
        return self._tallies.get(role)

    def _moved(self, own: Sequence[tuple[float, float]], role: Role) -> Sequence[tuple[float, float]]:
        """The priors with the mean that siblings saw, and the weight they had: their law is like this one's, not the same."""
        seen = [tallies for o in self._siblings.values() if o is not self and (tallies := o.tallies(role))]
        if not seen:
            return own
        moved = []
        for horizon, (good, weight) in enumerate(own):
            n, s = weight, good
            for tallies in seen:
                n += tallies[horizon][0]
                s += tallies[horizon][1]
            moved.append((s / n * weight, weight))
        return moved


@dataclass(slots=True)
class Use:
    """One open use of some prefixes: when, for which roles, and how many blocks deep each prefix was.

    ``lapsed``: how many of the ages it has passed; ``early``: it was counted as lost before its time.
    """

    at: float
    depths: Mapping[Role, int]
    odds: Odds
    lapsed: int = 0
    early: bool = False


class Uses:
    """The open uses of one scope and model; each is settled by the next use of its key, or by time."""

    def __init__(self) -> None:
        self._open: OrderedDict[Hashable, Use] = OrderedDict()
        self._due: tuple[deque[tuple[float, Hashable]], ...] = tuple(deque() for _ in HORIZONS)

    def lapse(self, now: float) -> None:
        """Settle what passed an age without another use. Call before ``settle`` with the same ``now``."""
        for horizon, due in enumerate(self._due):
            while due and due[0][0] < now - HORIZONS[horizon]:
                at, key = due.popleft()
                use = self._open.get(key)
                if use is None or use.at != at or use.lapsed > horizon:
                    continue
                use.lapsed = horizon + 1
                if use.lapsed < len(HORIZONS):
                    self._due[use.lapsed].append((at, key))
                for role in () if use.early else use.depths:
                    use.odds.settle(role, horizon, survived=False)

    def settle(self, key: Hashable, now: float, *, kept: int | None = None) -> None:
        """Settle the open use of this key, if any: of its blocks the first ``kept`` came back (None: all)."""
        use = self._open.pop(key, None)
        if use is None:
            return
        in_time = bisect_left(HORIZONS, now - use.at)
        for role, depth in use.depths.items():
            survived = in_time < len(HORIZONS) and (kept is None or depth <= kept)
            if use.early:
                if survived:
                    use.odds.revise(role, in_time)
                continue
            for horizon in range(use.lapsed, len(HORIZONS)):
                use.odds.settle(role, horizon, survived=survived and horizon == in_time)
                if survived and horizon == in_time:
                    break

    def open(self, key: Hashable, now: float, depths: Mapping[Role, int], odds: Odds) -> None:
        """Open a use: for each role, how many blocks deep its prefix is."""
        self._open[key] = Use(now, depths, odds)
        self._open.move_to_end(key)
        self._due[0].append((now, key))
        while len(self._open) > _MOST_USES:
            self._open.popitem(last=False)

    def replaced(self, keys: Iterable[Hashable]) -> None:
        """Count these open uses as lost now: the conversation that used them goes on with something else."""
        for key in keys:
            use = self._open.get(key)
            if use is None or use.early:
                continue
            use.early = True
            for role in use.depths:
                for horizon in range(use.lapsed, len(HORIZONS)):
                    use.odds.settle(role, horizon, survived=False)
