"""One request of a conversation: follow what was sent before, offer candidates, decide, commit.

A position counts the blocks of the whole prompt up to a boundary, a depth only those of the messages. When a conversation
merely grew, nothing here costs more for a long one than for a short one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

from shared_core.messages import Message
from shared_core.short_term.blocks import Wish, ttl_of
from shared_core.short_term.choice import Candidate, Choice, Entry, choose, falling, settled
from shared_core.short_term.conversation import Conversation, Shared
from shared_core.short_term.head import Head
from shared_core.short_term.marks import Boundary
from shared_core.short_term.plan import Breakpoint
from shared_core.short_term.rules import MOST_BREAKPOINTS, TTL_SECONDS, Level, ModelRules, Ttl
from shared_core.short_term.survival import Odds, Role

MARGIN = 1.15
"""How far the estimate of a prefix must be above the model's minimum before a breakpoint of ours is put there."""
_MOST_ENTRIES = 4096
_MOST_OWN_ENTRIES = 64
_SMOOTHING = 0.2
_MOVING = ("tail", "stable", "after")
_NO_MARK = "its cache_control is not {'type': 'ephemeral'}, with 'ttl' '5m' or '1h' if any"


class Step:
    """One request of a conversation at one moment."""

    def __init__(
        self,
        talk: Conversation,
        shared: Shared,
        head: Head,
        *,
        key: Hashable,
        now: float,
        rules: ModelRules,
        ratio: float,
    ) -> None:
        self.talk, self.shared, self.head, self.rules = talk, shared, head, rules
        self._key, self._now, self._ratio = key, now, ratio
        self._least = rules.min_tokens * (MARGIN if ratio == 1.0 else 1.0)
        self._kept, self._cut, self._growth = -1, False, 0.0
        self._depths: dict[Role, int] = {}
        self._candidates: dict[int, Candidate] = {}
        self._alive: dict[int, Entry] = {}

    @property
    def blocks(self) -> int:
        """How many blocks the prompt has."""
        return self.head.blocks + len(self.talk.tape)

    def tokens(self, position: int) -> int:
        """Tokens of the prompt's first ``position`` blocks, as estimated and corrected by earlier usage."""
        static = self.head.blocks
        known = (
            self.head.tokens[position]
            if position <= static
            else self.head.tokens[-1] + self.talk.tape.tokens[position - static]
        )
        return round(known * self._ratio)

    def follow(self, messages: list[Message]) -> None:
        """Take over the messages; settle what the last request left open; forget entries that are out of reach."""
        talk, uses, tape = self.talk, self.shared.uses, self.talk.tape
        uses.lapse(self._now)
        before, pictures, first = len(tape), bool(tape.images), talk.head is None
        kept = tape.follow(messages)
        if first and talk.origin is not None and not tape.images and talk.origin.head.identity == self.head.identity:
            kept, talk.live = talk.origin.depth, talk.origin.live
            self.shared.divergences.append(("head", kept))
        talk.origin = None
        if talk.head is not None and talk.head is not self.head:
            old, new = talk.head.digests.values(), set(self.head.digests.values())
            uses.replaced([use for use in old if use not in new])
            kept = kept if talk.head.identity == self.head.identity else -1
        if bool(tape.images) != pictures and before:
            kept = -1
        if not first:
            uses.settle(self._key, self._now, kept=kept)
            if 0 < kept < before:
                self.shared.divergences += [("tail", before - kept), ("head", kept)]
        for use in self.head.digests.values():
            uses.settle(use, self._now)
            uses.open(use, self._now, {use[0]: 0}, self.shared.odds)
        talk.head, self._kept = self.head, -1 if first else kept
        self._cut = not first and kept < before
        oldest = {ttl: self._now - seconds for ttl, seconds in TTL_SECONDS.items()}
        talk.live = {d: entry for d, entry in talk.live.items() if d <= kept and entry.at >= oldest[entry.ttl]}
        static = self.head.blocks
        self._alive = {static + depth: entry for depth, entry in talk.live.items()}
        for position, (_, digest) in self.head.digests.items():
            entry = self.shared.live.get(digest)
            if entry is not None and entry.at >= oldest[entry.ttl]:
                self._alive[position] = entry

    def offer(self, volatile: int | None) -> None:
        """Collect the boundaries worth considering; ``volatile`` is the depth at which the stable part ends."""
        n = len(self.talk.tape)
        self._grow(n if volatile is None else volatile)
        for position, (role, _) in self.head.digests.items():
            self._offer(position, role, self.shared.odds)
        # What happens next depends on where the turn is, and on whether the conversation was just cut: who keeps a
        # window of the last messages, or recalls anew, cuts again.
        state = self._in_tool_loop(), self._cut
        if volatile is not None and volatile < n:
            self._offer_depth(("stable",), volatile)
            self._offer_depth(("after", *state), n)
        else:
            self._offer_depth(("tail", 0, *state), n)
            self._offer_depth(("tail", 1, *state), n - 1)
        for role, times in Counter(self.shared.divergences).most_common(6) if self.shared.divergences else ():
            if role[0] == "tail" and role[1] < n:  # type: ignore[operator]
                self._offer_depth((*role, *state), n - role[1])  # type: ignore[operator]
            elif role[0] == "head" and times > 1 and role[1] < n:  # type: ignore[operator]
                self._offer_depth(role, role[1])  # type: ignore[arg-type]

    def decide(self, automatic: Any, *, explicit_only: bool) -> tuple[Choice, tuple[Breakpoint, ...], tuple[str, ...]]:
        """Choose among the candidates, the caller's breakpoints first; the choice, its breakpoints, and notes."""
        notes: list[str] = []
        callers = self._callers(notes)
        alone = self._automatic(automatic, callers, notes)
        if alone is not None:
            if len(callers) >= MOST_BREAKPOINTS:
                notes.append("the automatic breakpoint was left out: the caller's own take all four places")
                alone = None
            else:
                callers = [*callers, alone]
        asked, few = settled(callers)
        if not few:
            notes.append(f"of the caller's {len(asked)} breakpoints the most useful are kept: a request takes four")
        for (position, ttl), (_, wanted) in zip(asked, callers, strict=True):
            if ttl != wanted:
                notes.append(f"the caller's 1h breakpoint after block {position} became 5m: an earlier one is 5m")
            self._ask(position, ttl, forced=few, by="automatic" if alone == (position, wanted) else "caller")
        offered = falling([self._candidates[position] for position in sorted(self._candidates)])
        # What was written by an estimate that usage has since lowered below the minimum was not written at all.
        alive = sorted(self._alive, reverse=True)
        while alive and self.tokens(alive[-1]) < self.rules.min_tokens:
            alive.pop()
        choice = choose(offered, self.rules, alive, self.tokens, self._held(alive))
        marks = tuple(self._breakpoint(candidate, ttl, explicit_only) for candidate, ttl in choice.marked)
        return choice, marks, tuple(notes)

    def commit(self, choice: Choice) -> None:
        """Take the request for sent: its breakpoints are written or read now, and its prefixes are in use."""
        alive = self._alive
        for candidate, ttl in choice.marked:
            known = alive.get(candidate.position)
            kept: Ttl = ttl if known is None else known.ttl
            if known is None and candidate.position < choice.read and alive[choice.read].ttl == "5m":
                kept = "5m"
            self._enter(candidate.position, Entry(kept, self._now))
        if choice.read:
            self._enter(choice.read, Entry(alive[choice.read].ttl, self._now))
        while len(self.talk.live) > _MOST_OWN_ENTRIES:
            del self.talk.live[min(self.talk.live)]
        self.shared.uses.open(self._key, self._now, self._depths, self.talk.odds)

    def _held(self, alive: Sequence[int]) -> tuple[int, float]:
        """The deepest of these live positions that has an hour, and the share of its hour that is left."""
        position = next((p for p in alive if self._alive[p].ttl == "1h"), 0)
        if not position:
            return 0, 0.0
        return position, 1.0 - (self._now - self._alive[position].at) / TTL_SECONDS["1h"]

    def _grow(self, stable: int) -> None:
        """By how many tokens the stable part grew since the last request; what is usual in the scope, if that is unknown."""
        if self._kept <= 0:
            self._growth = min(self.shared.growth, self.tokens(self.blocks) - self.tokens(self.head.blocks))
            return
        tokens = self.talk.tape.tokens
        self._growth = max(tokens[stable] - tokens[min(self._kept, stable)], 0) * self._ratio
        self.shared.growth += _SMOOTHING * (self._growth - self.shared.growth)

    # -- candidates ----------------------------------------------------------------------------------

    def _offer_depth(self, role: Role, depth: int) -> None:
        markable = self.talk.tape.markable
        at = depth
        while at > 0 and not markable[at - 1]:
            at -= 1
        if at > 0:
            self._depths[role] = depth
            self._offer(self.head.blocks + at, role, self.talk.odds)

    def _offer(self, position: int, role: Role, known: Odds) -> None:
        tokens, kind = self.tokens(position), str(role[0])
        if tokens >= self._least and position not in self._candidates:
            p5, p60 = known.of(role)
            here = Boundary(tokens, p5, p60, self._growth if kind in _MOVING else 0.0)
            self._candidates[position] = Candidate(position, here, kind, known.seen(role))

    def _ask(self, position: int, ttl: Ttl, *, forced: bool, by: str) -> None:
        known = self._candidates.get(position)
        if known is None:
            deeper = min((p for p in self._candidates if p > position), default=None)
            nearest = deeper if deeper is not None else max(self._candidates, default=None)
            odds = (0.5, 0.5) if nearest is None else _odds(self._candidates[nearest])
        else:
            odds = _odds(known)
        fresh = 0.0 if known is None else known.boundary.fresh
        self._candidates[position] = Candidate(position, Boundary(self.tokens(position), *odds, fresh, forced, ttl), by)

    def _callers(self, notes: list[str]) -> list[tuple[int, Ttl]]:
        static = self.head.blocks
        wanted: list[tuple[int, Wish]] = list(self.head.callers)
        wanted += [(static + block + 1, ttl) for block, ttl in sorted(self.talk.tape.callers.items())]
        kept: list[tuple[int, Ttl]] = []
        for position, ttl in wanted:
            if ttl == "?":
                notes.append(f"the caller's breakpoint after block {position} was left out: {_NO_MARK}")
            elif not self._markable(position):
                notes.append(
                    f"the caller's breakpoint after block {position} was left out: the provider refuses it there"
                )
            elif self.tokens(position) < self.rules.min_tokens:
                notes.append(
                    f"the caller's breakpoint after block {position} was left out: about {self.tokens(position)} tokens "
                    f"are below the model's minimum of {self.rules.min_tokens}"
                )
            else:
                kept.append((position, ttl))
        return kept

    def _automatic(self, given: Any, callers: Sequence[tuple[int, Ttl]], notes: list[str]) -> tuple[int, Ttl] | None:
        ttl = ttl_of(given)
        if ttl == "?":
            notes.append(f"the automatic breakpoint was left out: {_NO_MARK}")
        if ttl is None or ttl == "?":
            return None
        position = next((p for p in range(self.blocks, 0, -1) if self._markable(p)), 0)
        if self.tokens(position) < self.rules.min_tokens:
            notes.append("the automatic breakpoint was left out: the prompt is below the model's minimum")
            return None
        return None if any(position == p for p, _ in callers) else (position, ttl)

    # -- what is where -------------------------------------------------------------------------------

    def _enter(self, position: int, entry: Entry) -> None:
        if position > self.head.blocks:
            self.talk.live[position - self.head.blocks] = entry
        elif position in self.head.digests:
            digest = self.head.digests[position][1]
            self.shared.live[digest] = entry
            self.shared.live.move_to_end(digest)
            while len(self.shared.live) > _MOST_ENTRIES:
                self.shared.live.popitem(last=False)

    def _markable(self, position: int) -> bool:
        static = self.head.blocks
        return (
            self.head.piece(position - 1).markable
            if position <= static
            else self.talk.tape.markable[position - static - 1]
        )

    def _breakpoint(self, candidate: Candidate, ttl: Ttl, explicit_only: bool) -> Breakpoint:
        here = candidate.boundary
        survival = here.p60 if ttl == "1h" else here.p5
        block, tools, static = candidate.position - 1, len(self.head.tools), self.head.blocks
        by = "caller" if candidate.by == "automatic" and explicit_only else candidate.by
        level: Level = "tools" if block < tools else "system" if block < static else "messages"
        index, place = (block if block < tools else block - tools), 0
        if level == "messages":
            index, place = self.talk.tape.place(block - static)
        return Breakpoint(level, index, place, candidate.position, int(here.tokens), ttl, survival, by)

    def _in_tool_loop(self) -> bool:
        return self.talk.tape.last.get("type") == "tool_result"


def _odds(candidate: Candidate) -> tuple[float, float]:
    return candidate.boundary.p5, candidate.boundary.p60
