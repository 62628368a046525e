"""One request's breakpoints: the hour where this request buys it for little, and the way to what is alive."""

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared_core.short_term.choice import Candidate, bill, choose, falling, reachable
from shared_core.short_term.marks import Boundary
from shared_core.short_term.rules import RULES

SONNET = RULES["claude-sonnet-5"]


def prompt(late=0.05):
    """System and tail: 2 000 and 12 000 tokens; in five minutes 0.99 and 0.85 come back, ``late`` more in the hour."""
    return [
        Candidate(1, Boundary(2000.0, 0.99, 0.99), "system"),
        Candidate(9, Boundary(12_000.0, 0.85, 0.85 + late, fresh=200.0), "tail"),
    ]


def lifetimes(candidates, read, held=0, left=0.0):
    """The lifetimes chosen when so many tokens are found, and the first ``held`` have an hour, of which so much is left."""
    alive = {0: [], 2000: [1], 11_000: [8], 11_800: [8]}[read]
    tokens = {0: 0, 1: 2000, 7: held, 8: read, 9: 12_000}
    choice = choose(candidates, SONNET, alive, tokens.__getitem__, (7 if held else 0, left))
    return [ttl for _, ttl in choice.marked]


def test_an_hour_is_bought_when_only_the_new_tokens_pay_for_it():
    """Lost per token is x = 0.05 * 1.15 / 0.95 = 0.0605, so every sqrt(1.5 / x) = 4.98th request buys, when 2.99 x were lost.

    10 000 * 0.0605 * 2.99 = 1 810 is more than 200 * 0.75 = 150, and more than 1 000 * 0.75.
    """
    assert lifetimes(prompt(), read=11_800) == ["1h", "1h"]
    assert lifetimes(prompt(), read=11_000) == ["1h", "1h"]


@pytest.mark.parametrize(("late", "read"), [(0.05, 2000), (0.05, 0), (0.0, 11_800), (0.001, 11_800)])
def test_no_hour_is_bought_when_it_is_not_worth_its_price(late, read):
    """10 000 new tokens cost 7 500. Late returns of 0.1 % lose 0.00115 a token, 3.8 times: nobody waits longer than
    1 / (1 - 0.851) = 6.7 requests. That is 44 of 10 000, less than 150.
    """
    assert lifetimes(prompt(late), read) == ["5m", "5m"]


def test_an_hour_that_was_just_bought_is_not_bought_again():
    """Only 600 tokens are without one: 600 * 0.0605 * 2.99 = 109 is less than 150, for 1 000 it is 181."""
    assert lifetimes(prompt(), 11_800, held=11_400, left=1.0) == ["5m", "5m"]
    assert lifetimes(prompt(), 11_800, held=11_000, left=1.0) == ["1h", "1h"]


def test_an_hour_that_is_nearly_over_counts_as_much_as_is_left_of_it():
    """Of 9 400 tokens with an hour, 19 in 20 of it: 10 000 - 8 930 = 1 070 are open, worth 194."""
    assert lifetimes(prompt(), 11_800, held=11_400, left=0.95) == ["1h", "1h"]


def test_a_moving_mark_gets_no_hour_that_it_does_not_pay_for_when_it_is_found():
    """In the long run an hour is best, 1.9 * 0.97 - 1.15 * 0.8 > 0.75, but all of what was there before has one.

    Of 12 000 tokens 200 are new and open: x = 0.17 * 1.15 / 0.83 = 0.236, k = 2.5, and 200 * 0.236 * 1.76 = 83 < 150.
    """
    candidates = [prompt()[0], Candidate(9, Boundary(12_000.0, 0.8, 0.97, fresh=200.0), "tail")]
    assert lifetimes(candidates, 11_800, held=11_800, left=1.0)[-1] == "5m"
    assert lifetimes(candidates, 11_800)[-1] == "1h"


def test_the_caller_s_five_minutes_stay_and_end_the_hours_before_them():
    """A lifetime the caller asked for is not changed, and nothing behind it may be longer."""
    candidates = prompt()
    candidates.insert(1, Candidate(5, Boundary(5000.0, 0.9, 0.9, forced=True, ttl="5m"), "caller"))
    assert lifetimes(candidates, read=11_800) == ["5m", "5m", "5m"]


def test_the_caller_s_hour_stays_whatever_it_is_worth():
    """Also behind a moving mark that would get none, which keeps its hour then: nothing before it may be shorter."""
    candidates = prompt(late=0.0)
    candidates.append(Candidate(10, Boundary(12_500.0, 0.1, 0.1, forced=True, ttl="1h"), "caller"))
    choice = choose(candidates, SONNET, [8], {0: 0, 1: 2000, 8: 11_800, 9: 12_000, 10: 12_500}.__getitem__)
    assert {ttl for _, ttl in choice.marked} == {"1h"}
    assert choice.marked[-1][0].by == "caller"


def head(p5, lost):
    """A system alone, of 2 000 tokens, that is found in five minutes with p5; of the misses, this share never comes back."""
    return [Candidate(1, Boundary(2000.0, p5, 1 - (1 - p5) * lost), "system")]


@pytest.mark.parametrize(("p5", "ttl"), [(0.5, "1h"), (0.9, "1h"), (0.99, "5m"), (0.999, "5m")])
def test_an_hour_for_the_head_has_to_pay_back_while_its_reason_is_known(p5, ttl):
    """Half of the misses come late: 1.9 * p60 - 1.15 * p5 > 0.75 whatever p5 is, but at 0.99 after a hundred requests.

    Discounted: 0.9801 * 0.5 * 0.01 / (1 - 0.9801 * 0.99) = 0.165 of the misses, and 1.9 * 0.99165 - 1.15 * 0.99 = 0.746.
    """
    choice = choose(head(p5, lost=0.5), SONNET, [], {0: 0, 1: 2000}.__getitem__)
    assert [lifetime for _, lifetime in choice.marked] == [ttl]


def estimates(*given):
    """Candidates with these (p5, p60, seen) at positions 1, 2 and so on."""
    return [Candidate(i, Boundary(1000.0 * i, p5, p60), "tail", seen) for i, (p5, p60, seen) in enumerate(given, 1)]


def survivals(candidates):
    return [(candidate.boundary.p5, candidate.boundary.p60) for candidate in falling(candidates)]


def test_what_nobody_has_seen_does_not_speak_against_what_was_seen_of_a_longer_prefix():
    """A guess of a half worth 2 uses, before 0.98 seen in 46: both are (2 * 0.5 + 46 * 0.98) / 48 = 0.96."""
    assert [p5 for p5, _ in survivals(estimates((0.5, 0.5, 2), (0.98, 0.98, 46)))] == [pytest.approx(0.96)] * 2


def test_a_longer_prefix_nobody_has_seen_does_not_outlive_a_shorter_one():
    """0.1 seen in 38 uses, then a guess of a half worth 2: (38 * 0.1 + 2 * 0.5) / 40 = 0.12."""
    assert [p5 for p5, _ in survivals(estimates((0.1, 0.1, 38), (0.5, 0.5, 2)))] == [pytest.approx(0.12)] * 2


def test_no_late_returns_are_made_up_where_estimates_cross():
    """The system has 0.99 and half of its misses late, the tail 0.994 and none: the tail has none afterwards either."""
    (p5, p60), (tail5, tail60) = survivals(estimates((0.99, 0.995, 100), (0.994, 0.994, 100)))
    assert p5 == tail5 == pytest.approx(0.992)
    assert p60 == pytest.approx(0.996)
    assert tail60 == tail5


def test_a_shorter_prefix_that_was_seldom_used_does_not_take_the_late_returns_of_a_longer_one():
    """P5 falls, so it stays. P60 is 0.9 in 10 uses, then 0.96 in 40: both are (9 + 38.4) / 50 = 0.948."""
    found = survivals(estimates((0.9, 0.9, 10), (0.8, 0.96, 40)))
    assert found == [pytest.approx((0.9, 0.948)), pytest.approx((0.8, 0.948))]


def test_estimates_that_fall_stay_as_they_are():
    """Nothing to settle."""
    given_ = [(0.9, 0.95), (0.5, 0.75), (0.2, 0.2)]
    assert [pytest.approx(pair) for pair in given_] == survivals(estimates(*((a, b, 5) for a, b in given_)))


seen_odds = st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 200)).map(
    lambda drawn: (min(drawn[:2]), max(drawn[:2]), drawn[2])
)


@given(st.lists(seen_odds, max_size=8))
@settings(max_examples=200, deadline=None)
def test_a_longer_prefix_never_survives_better_and_the_mean_is_kept(drawn):
    """P5 and P60 fall, P60 is not below P5, and the weighted sum of P5 is what it was."""
    out = survivals(estimates(*drawn))
    for (a5, a60), (b5, b60) in pairwise(out):
        assert b5 <= a5 + 1e-12
        assert b60 <= a60 + 1e-12
    assert all(p5 - 1e-12 <= p60 <= 1 for p5, p60 in out)
    weights = [max(seen, 1e-6) for *_, seen in drawn]
    before = sum(weight * p5 for weight, (p5, *_) in zip(weights, drawn, strict=True))
    after = sum(weight * p5 for weight, (p5, _) in zip(weights, out, strict=True))
    assert after == pytest.approx(before, abs=1e-9)


odds = st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted)


@given(st.lists(st.tuples(st.integers(100, 5000), odds, st.booleans()), min_size=1, max_size=6), st.integers(0, 6))
@example([(100, [0.0, 1.0], True)], 0)  # everybody comes back, and nobody within five minutes
@settings(max_examples=200, deadline=None)
def test_lifetimes_never_grow_along_the_prompt_and_four_are_the_most(spans, read):
    """Whatever is alive and however likely it is to come back."""
    candidates, total, tokens = [], 0.0, {0: 0}
    p5 = p60 = 1.0
    for i, (span, (a, b), moves) in enumerate(spans, 1):
        total += span
        p5, p60 = min(p5, a), min(p60, b)
        tokens[i] = total
        by = "system" if i == 1 else "tail"
        candidates.append(Candidate(i, Boundary(total, min(p5, p60), p60, fresh=50.0 if moves else 0.0), by))
    alive = [min(read, len(spans))] if read else []
    marked = choose(candidates, SONNET, alive, tokens.__getitem__).marked
    chosen = [ttl for _, ttl in marked]
    assert chosen == sorted(chosen)  # "1h" before "5m"
    assert len(chosen) <= 4
    assert [candidate.position for candidate, _ in marked] == sorted({candidate.position for candidate, _ in marked})


def test_a_breakpoint_sees_nineteen_positions_back_and_the_deepest_counts():
    """Of entries at 30, 12 and 11, one at 31 sees the first two."""
    assert reachable([31], [30, 12, 11]) == 30
    assert reachable([31], [12, 11]) == 12
    assert reachable([31], [11]) == 0
    assert reachable([], [11]) == 0


def test_the_bill_is_the_documented_arithmetic():
    """Read 1 000; a one-hour write to 3 000, a five-minute write to 4 500, 500 at the base price: 100 + 4 000 + 1 875 + 500."""
    expected = bill([(3000, "1h"), (4500, "5m")], 1000, 5000, SONNET)
    assert (expected.read, expected.written_1h, expected.written_5m, expected.uncached) == (1000, 2000, 1500, 500)
    assert expected.cost == pytest.approx(6475)
