"""Which breakpoints a request gets: the caller's, the best of ours, and an anchor to what is cached already. Pure.

``marks.py`` finds the optimum in the long run; what is alive at the provider now decides about the anchor: a breakpoint
sees at most 19 positions back, so when a turn added more than that, a breakpoint at the earlier position is what still
finds the entry there. It also decides about lifetimes that this request can buy for little.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import ge
from typing import Final, NamedTuple

from shared_core.short_term.marks import Boundary, best_marks, distinct
from shared_core.short_term.plan import Expected
from shared_core.short_term.rules import LOOKBACK_POSITIONS, MOST_BREAKPOINTS, ModelRules, Ttl
from shared_core.short_term.survival import FADE

_SURE: Final = 0.99
"""No conversation is expected to go on for more than a hundred requests, the memory of what was learned."""
_UNSEEN: Final = 1e-6
"""The weight of a survival that was taken from a neighbour."""


class Candidate(NamedTuple):
    """A boundary after ``position`` blocks; ``by`` names why it is one (see ``Breakpoint.by``).

    ``seen``: how many uses its survival was learned from.
    """

    position: int
    boundary: Boundary
    by: str
    seen: float = 0.0


class Entry(NamedTuple):
    """A cache entry taken to be alive: its lifetime, and when the request that wrote or last read it started."""

    ttl: Ttl
    at: float


class Choice(NamedTuple):
    """The candidates marked, with their lifetimes; the position read from the cache; the average saving."""

    marked: tuple[tuple[Candidate, Ttl], ...]
    read: int
    saving: float


def choose(
    candidates: Sequence[Candidate],
    rules: ModelRules,
    alive: Sequence[int],
    tokens: Callable[[int], int],
    held: tuple[int, float] = (0, 0.0),
) -> Choice:
    """The best breakpoints among candidates in order of position; ``alive``: positions of live entries, deepest first.

    ``held``: the position of the deepest entry with an hour, and the share of its hour that is left. ``tokens`` gives
    the tokens of a prefix by its position. Without a way to the deepest live entry, the best with an
    anchor there is compared: what reading it saves now against what the slot would save on average. Places left over
    go to the ends of system and tools.
    """
    best = _best(candidates, rules, alive)
    if best is None:
        return Choice((), 0, 0.0)
    deepest = alive[0] if alive else 0
    if deepest > best.read:
        anchored = _best(_with_anchor(candidates, deepest, tokens(deepest)), rules, alive)
        gain = (1 - rules.read) * (tokens(deepest) - tokens(best.read))
        if anchored is not None and anchored.read == deepest and anchored.saving + gain > best.saving:
            best = anchored
    marked = _with_spares(best.marked, candidates)
    hours = _with_hours(marked, tokens(best.read), rules, tokens(held[0]), held[1])
    return Choice(hours, best.read, best.saving)


def falling(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates, in order of position, with survivals that do not grow with depth.

    Where a longer prefix is found, a shorter one is too; two estimates that say otherwise are one quantity measured twice,
    so they become their mean, each weighted with what was seen of it (isotonic regression by pooling neighbours). First
    P5, and then P60 with the share of the misses that come back late left as it was: pooling P5 and P60 one by one would
    make late returns up that nobody saw.
    """
    weights = [max(candidate.seen, _UNSEEN) for candidate in candidates]
    five, hour = [c.boundary.p5 for c in candidates], [c.boundary.p60 for c in candidates]
    soon = _pooled(five, weights)
    if soon is not five:
        late = [(p60 - p5) / (1 - p5) if p5 < 1 else 0.0 for p5, p60 in zip(five, hour, strict=True)]
        hour = [p5 + share * (1 - p5) for p5, share in zip(soon, late, strict=True)]
    later = _pooled(hour, weights)
    if soon is five and later is hour:
        return list(candidates)
    return [
        candidate._replace(boundary=candidate.boundary._replace(p5=p5, p60=max(p60, p5)))
        for candidate, p5, p60 in zip(candidates, soon, later, strict=True)
    ]


def _pooled(values: list[float], weights: Sequence[float]) -> list[float]:
    """The falling sequence that is nearest to these values by weighted squares; the values themselves, if they fall."""
    if all(map(ge, values, values[1:])):
        return values
    pools: list[tuple[float, float, int]] = []  # mean, weight, how many values
    for value, weight in zip(values, weights, strict=True):
        mean, weighs, members = value, weight, 1
        while pools and pools[-1][0] < mean:
            before, more, count = pools.pop()
            mean = (mean * weighs + before * more) / (weighs + more)
            weighs, members = weighs + more, members + count
        pools.append((mean, weighs, members))
    return [mean for mean, _, members in pools for _ in range(members)]


def reachable(marked: Sequence[int], alive: Sequence[int]) -> int:
    """The deepest live position that one of the marked positions sees; 0 for none. ``alive``: deepest first."""
    for entry in alive:
        for mark in marked:
            if 0 <= mark - entry < LOOKBACK_POSITIONS:
                return entry
    return 0


def bill(marked: Sequence[tuple[int, Ttl]], read: int, total: int, rules: ModelRules, saving: float = 0.0) -> Expected:
    """What a request costs whose breakpoints end prefixes of these tokens, of which ``read`` tokens are found.

    The documented arithmetic: read up to the hit; from there to the last one-hour breakpoint a one-hour write;
    from there to the last breakpoint a five-minute write; the rest at the base price.
    """
    hour = last = read
    for tokens, ttl in marked:
        last = max(last, tokens)
        if ttl == "1h":
            hour = max(hour, tokens)
    cost = rules.read * read + rules.write_1h * (hour - read) + rules.write_5m * (last - hour) + (total - last)
    return Expected(read, last - hour, hour - read, total - last, cost, saving)


def _best(candidates: Sequence[Candidate], rules: ModelRules, alive: Sequence[int]) -> Choice | None:
    boundaries = [_patient(candidate.boundary) for candidate in candidates]
    kept = distinct(boundaries)
    try:
        saving, marks = best_marks([boundaries[i] for i in kept], rules)
    except ValueError:
        return None
    marked = tuple((candidates[kept[i]], ttl) for i, ttl in marks)
    return Choice(marked, reachable([candidate.position for candidate, _ in marked], alive), saving)


def _patient(here: Boundary) -> Boundary:
    """The boundary with its late returns (p60 - p5) discounted by how long the first one is waited for.

    What lies before a boundary at rest is bought an hour once, at its next write, and the first late return pays it back:
    after k returns in time, with the probability p5^k * (p60 - p5). Both factors are learned and fade by ``FADE`` a use,
    and so does what can be promised on them, by f = FADE^2. The formula of ``marks.py`` has no such discount; it is given
    the late share whose undiscounted odds are the discounted ones:

        late' / (1 - p5) = sum over k of f^(k + 1) * p5^k * late = f * late / (1 - f * p5)

    At p5 = 0 late returns count nearly in full, at 0.98, when two misses are remembered, a half, at 0.999, a wait of a
    thousand uses, a twentieth. A moving boundary pays on every request, and waits for nothing: ``_with_hours``.
    """
    tokens, p5, p60, fresh, forced, ttl = here
    if fresh:
        return here
    discount = FADE**2 * (1 - p5) / (1 - FADE**2 * p5)
    return Boundary(tokens, p5, p5 + discount * (p60 - p5), fresh, forced, ttl)


def _with_hours(
    marked: tuple[tuple[Candidate, Ttl], ...], read: int, rules: ModelRules, held: int = 0, left: float = 0.0
) -> tuple[tuple[Candidate, Ttl], ...]:
    """The marks with an hour for as many of the five-minute and the moving ones as it pays for now, from the front.

    ``marks.py`` compares lifetimes as if each were kept on every request. This request can do better: it writes only
    what lies behind its hit (``read`` tokens), so an hour for the whole prefix costs c = (w_1h - w_5m) times the new
    tokens U, whenever it is bought. What is lost meanwhile, per request and per token that has no hour yet, is

        x = (p60 - p5) * (w_5m - r) / (1 + p5 - p60)

    a late return, which is a miss against a hit when every hit can buy the hour again. The first ``held`` tokens have
    one already, of which the share ``left`` is to come. So buying is ordering stock: on average c / k + x * U * (k - 1) / 2
    a request when every k-th buys, least at k = sqrt(2 * (w_1h - w_5m) / x), and the time has come when what was lost
    since the last one, x * (1 + k) / 2 for each token without an hour, is c. Nobody waits longer than the conversation
    is expected to last, 1 / (1 - p60).
    """
    extra, spare = rules.write_1h - rules.write_5m, rules.write_5m - rules.read
    first = len(marked)
    for i in range(len(marked) - 1, -1, -1):  # an hour the caller asked for stays, and so do those before it
        if marked[i][0].boundary.ttl == "1h":
            break
        if marked[i][1] == "5m" or marked[i][0].boundary.fresh:
            first = i
    before = marked[first - 1][0].boundary.tokens if first else 0.0
    gain, best, upto = 0.0, 0.0, first
    for i, (candidate, _) in enumerate(marked[first:], first):
        here = candidate.boundary
        if here.ttl == "5m":
            break
        late = here.p60 - here.p5
        if here.tokens > read:  # an entry that is alive keeps its lifetime
            if late > 0:
                lost = late * spare / max(1 - late, 1 - _SURE)
                often = max(1.0, min(math.sqrt(2 * extra / lost), 1 / (1 - min(here.p60, _SURE))))
                without = here.tokens - before - (left * (min(held, here.tokens) - before) if held > before else 0.0)
                gain += without * lost * (1 + often) / 2
            gain -= (here.tokens - max(before, read)) * extra
        if gain > best:
            best, upto = gain, i + 1
        before = here.tokens
    return tuple((candidate, "1h" if i < upto else "5m") for i, (candidate, _) in enumerate(marked))


def _with_spares(
    marked: tuple[tuple[Candidate, Ttl], ...], candidates: Sequence[Candidate]
) -> tuple[tuple[Candidate, Ttl], ...]:
    """The marked ones, and in the places left the ends of the system and of the tools before them.

    Their spans are written in any case, so a mark there costs nothing, and a conversation that has not begun
    yet may find it.
    """
    if len(marked) == MOST_BREAKPOINTS:
        return marked
    out = list(marked)
    ends = {candidate.by: candidate for candidate in candidates if candidate.by in ("tools", "system")}
    for candidate in (ends.get("system"), ends.get("tools")):
        deeper = None if candidate is None else next((m for m in out if m[0].position >= candidate.position), None)
        if candidate is None or deeper is None or len(out) == MOST_BREAKPOINTS:
            continue
        if deeper[0].position == candidate.position:
            continue
        out.insert(out.index(deeper), (candidate, deeper[1]))
    return tuple(out)


def _with_anchor(candidates: Sequence[Candidate], position: int, tokens: int) -> list[Candidate]:
    """The candidates with a forced one at the position; as likely to survive as the next deeper one there is."""
    if any(candidate.position == position for candidate in candidates):
        return [
            candidate._replace(boundary=candidate.boundary._replace(forced=True))
            if candidate.position == position
            else candidate
            for candidate in candidates
        ]
    deeper = next((c.boundary for c in candidates if c.position > position), None)
    p5, p60 = (deeper.p5, deeper.p60) if deeper is not None else (0.0, 0.0)
    anchor = Candidate(position, Boundary(tokens, p5, p60, 0.0, forced=True), "anchor")
    return sorted([*candidates, anchor], key=lambda candidate: candidate.position)


def settled(callers: Sequence[tuple[int, Ttl]]) -> tuple[list[tuple[int, Ttl]], bool]:
    """The caller's breakpoints with lifetimes that do not grow along the prompt: a later one is lowered, if it must be.

    Whether they are few enough to be kept as they are (else each is only a candidate) is the second value.
    """
    out: list[tuple[int, Ttl]] = []
    for position, ttl in callers:
        lowered: Ttl = "5m" if out and out[-1][1] == "5m" else ttl
        out.append((position, lowered))
    return out, len(out) <= MOST_BREAKPOINTS
