"""The optimum of the cost formula: equal to trying every set of breakpoints, and what it says in known cases."""

from itertools import combinations, pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.short_term.marks import Boundary, best_marks, distinct
from shared_core.short_term.rules import RULES, ModelRules

SONNET = RULES["claude-sonnet-5"]


def saved(boundaries, marks, rules):
    """The formula as it is written: a span saves (w - r) P - (w_j - 1) per token, less w_j - 1 per fresh token."""
    total, before, grown, moved_by = 0.0, 0.0, 0.0, None
    for index, ttl in marks:
        boundary = boundaries[index]
        p, w = (boundary.p60, rules.write_1h) if ttl == "1h" else (boundary.p5, rules.write_5m)
        miss = w if moved_by is None else moved_by
        total += (boundary.tokens - before) * ((miss - rules.read) * p - (w - 1)) - (boundary.fresh - grown) * (w - 1)
        before, grown = boundary.tokens, boundary.fresh
        moved_by = w if boundary.fresh else None
    return total


def by_trying_everything(boundaries, rules, slots):
    best = None
    for count in range(slots + 1):
        for chosen in combinations(range(len(boundaries)), count):
            if any(boundary.forced and i not in chosen for i, boundary in enumerate(boundaries)):
                continue
            for ttls in product(("1h", "5m"), repeat=count):
                marks = tuple(zip(chosen, ttls, strict=True))
                grows = any(a == "5m" and b == "1h" for a, b in pairwise(ttls))
                other = any(boundaries[i].ttl not in (None, ttl) for i, ttl in marks)
                if not grows and not other:
                    value = saved(boundaries, marks, rules)
                    best = value if best is None else max(best, value)
    return best


probabilities = st.floats(0, 1, allow_nan=False)


@st.composite
def prompts(draw, forced=True):
    spans = draw(st.lists(st.integers(1, 5000), min_size=1, max_size=7))
    found, total = [], 0
    for span in spans:
        total += span
        p5, p60 = sorted((draw(probabilities), draw(probabilities)))
        found.append(
            Boundary(
                total,
                p5,
                p60,
                fresh=draw(st.sampled_from([0, 0, 10, 700])),
                forced=forced and draw(st.integers(0, 5)) == 0,
                ttl=draw(st.sampled_from([None, None, "5m", "1h"])) if forced else None,
            )
        )
    return found


models = st.sampled_from([SONNET, RULES["claude-fable-5-1"], ModelRules(write_5m=1.5, write_1h=1.6, read=0.3)])


@given(prompts(), models, st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_the_optimum_is_what_trying_every_set_of_breakpoints_finds(boundaries, rules, slots):
    """Forced breakpoints, fixed lifetimes, and lifetimes that must not grow included."""
    tried = by_trying_everything(boundaries, rules, slots)
    if tried is None:
        with pytest.raises(ValueError, match="forced boundaries"):
            best_marks(boundaries, rules, slots=slots)
        return
    value, marks = best_marks(boundaries, rules, slots=slots)
    assert value == pytest.approx(tried, abs=1e-6)
    assert value == pytest.approx(saved(boundaries, marks, rules), abs=1e-6)
    assert len(marks) <= slots


@given(st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 3)), min_size=1, max_size=9), models)
@settings(max_examples=150, deadline=None)
def test_leaving_out_the_shallower_of_equals_loses_nothing(spans, rules):
    """With survival that falls along the prompt, as it does in truth, the optimum is among the distinct boundaries."""
    total, p, boundaries = 0, 1.0, []
    for span, drop in spans:
        total += span
        p *= 1 - drop / 10
        boundaries.append(Boundary(total, p, min(1.0, p + 0.1)))
    kept = [boundaries[i] for i in distinct(boundaries)]
    assert best_marks(kept, rules)[0] == pytest.approx(best_marks(boundaries, rules)[0], abs=1e-6)


def test_one_stable_prefix_is_marked_once_at_its_end():
    """10 000 tokens that survive with 0.9 save 10 000 * (1 - 0.09 - 0.125) = 7 850 a request."""
    value, marks = best_marks([Boundary(4000, 0.9, 0.9), Boundary(10_000, 0.9, 0.9)], SONNET)
    assert marks == ((1, "5m"),)
    assert value == pytest.approx(7850)


def test_a_tail_that_rarely_survives_is_left_unmarked():
    """0.2 is below the break-even of 0.25 / 1.15 = 0.217: only the stable 4 000 tokens are marked."""
    _, marks = best_marks([Boundary(4000, 0.9, 0.9), Boundary(10_000, 0.2, 0.2)], SONNET)
    assert marks == ((0, "5m"),)
    _, marks = best_marks([Boundary(4000, 0.9, 0.9), Boundary(10_000, 0.22, 0.22)], SONNET)
    assert marks == ((0, "5m"), (1, "5m"))


def test_an_hour_is_bought_when_pauses_outlast_five_minutes():
    """p5 = 0.3, p60 = 0.95: 1h saves 1 - 0.095 - 0.1 = 0.805 a token, 5m only 1 - 0.03 - 0.875 = 0.095."""
    value, marks = best_marks([Boundary(1000, 0.3, 0.95)], SONNET)
    assert marks == ((0, "1h"),)
    assert value == pytest.approx(805)


@pytest.mark.parametrize(
    ("model", "uses_5m", "uses_1h", "survival_5m", "survival_1h"),
    [
        ("claude-sonnet-5", 1.28, 2.11, 0.217, 0.526),
        ("claude-sonnet-5-5", 1.26, 2.05, 0.208, 0.513),
        ("claude-fable-5-1", 1.26, 2.03, 0.204, 0.506),
    ],
)
def test_break_even_is_at_the_known_numbers(model, uses_5m, uses_1h, survival_5m, survival_1h):
    """Two uses pay for five minutes and three for an hour on every model."""
    rules = RULES[model]
    assert rules.break_even_uses("5m") == pytest.approx(uses_5m, abs=0.005)
    assert rules.break_even_uses("1h") == pytest.approx(uses_1h, abs=0.005)
    assert rules.break_even_survival("5m") == pytest.approx(survival_5m, abs=0.0005)
    assert rules.break_even_survival("1h") == pytest.approx(survival_1h, abs=0.0005)
