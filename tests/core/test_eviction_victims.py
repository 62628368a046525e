"""Exact victims: every policy against a plain loop over its written formula, ties included."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.errors import InvalidInput
from shared_core.eviction import Entries, attention_lru, fifo, lfu, lru, shuffle, victims
from shared_core.eviction.policies import named
from shared_core.settings import Rule

NOW = 100.0
MASK = 2**64 - 1

# Few distinct values, so that ties are the rule and not the exception; some entries come from the future.
entry = st.tuples(
    st.sampled_from([0.0, 50.0, 99.5, 100.0, 130.0]),
    st.integers(0, 3),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    st.sampled_from([math.nan, 0.0, 0.3, 1.0]),
    st.integers(0, 4),
    st.booleans(),
)
entry_lists = st.lists(entry, min_size=1, max_size=60)
rules = st.builds(
    Rule,
    alpha=st.sampled_from([0.1, 0.4]),
    beta=st.sampled_from([0.0, 0.6]),
    time_scale=st.sampled_from([1.0, 300.0]),
    evidence_weight=st.sampled_from([0.0, 0.25, 1.0]),
)


def written_attention_lru(row, rule):
    age = max(0.0, NOW - row["last"])
    evidence = row["prior"] if math.isnan(row["evidence"]) else row["evidence"]
    attention = (1.0 - rule.evidence_weight) * row["prior"] + rule.evidence_weight * evidence
    return rule.alpha * (1.0 / (1.0 + age / rule.time_scale)) + rule.beta * attention


def written_shuffle(row, salt):
    bits = (row["inserted"] * 0x9E3779B97F4A7C15 + salt) & MASK
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
    return float(bits ^ (bits >> 31))


def written_scores(policy, rows, rule):
    salt = int(np.random.default_rng(7).integers(0, 2**63, dtype=np.uint64))
    formula = {
        "attention_lru": lambda row: written_attention_lru(row, rule),
        "lru": lambda row: row["last"],
        "lfu": lambda row: row["count"],
        "fifo": lambda row: row["inserted"],
        "random": lambda row: written_shuffle(row, salt),
    }[policy]
    return [formula(row) for row in rows]


def written_victims(scores, rows, items, size):
    """Take the lowest again and again until enough is free."""
    left = [i for i, row in enumerate(rows) if not row["pinned"]]
    chosen, freed = [], 0
    while left and (len(chosen) < items or freed < size):
        lowest = min(left, key=lambda i: (scores[i], rows[i]["last"], rows[i]["inserted"]))
        left.remove(lowest)
        chosen.append(lowest)
        freed += rows[lowest]["size"]
    return chosen


@pytest.mark.parametrize("policy", ["attention_lru", "lru", "lfu", "fifo", "random"])
@given(rows=entry_lists, rule=rules, items=st.integers(0, 70), size=st.integers(0, 150), order=st.randoms())
def test_the_victims_are_those_of_a_plain_loop_over_the_formula(policy, rows, rule, items, size, order):
    names = ("last", "count", "prior", "evidence", "size", "pinned")
    rows = [{**dict(zip(names, row, strict=True)), "inserted": 3 * i} for i, row in enumerate(rows)]
    order.shuffle(rows)
    column = {name: np.array([row[name] for row in rows]) for name in (*names, "inserted")}
    entries = Entries(
        now=NOW,
        last_accessed=column["last"],
        inserted=column["inserted"],
        access_count=column["count"].astype(np.float64),
        prior=column["prior"],
        evidence=column["evidence"],
    )
    scores = named(policy, rule=rule, rng=np.random.default_rng(7))(entries)
    assert scores.dtype == np.float64
    assert scores.tolist() == written_scores(policy, rows, rule)
    found = victims(
        scores, column["last"], column["inserted"], column["size"], ~column["pinned"], items=items, size=size
    )
    assert found.tolist() == written_victims(scores.tolist(), rows, items, size)


def test_ties_go_least_recently_used_first_then_oldest_insertion():
    scores = np.array([0.5, 0.5, 0.5, 0.1, 0.5])
    last = np.array([9.0, 7.0, 7.0, 9.0, 8.0])
    inserted = np.array([0, 2, 1, 3, 4])
    ones = np.ones(5, dtype=np.int64)
    everyone = np.ones(5, dtype=bool)
    order = [3, 2, 1, 4, 0]
    for k in range(6):
        assert victims(scores, last, inserted, ones, everyone, items=k).tolist() == order[:k]


def test_bytes_are_freed_by_the_shortest_run_of_the_lowest():
    """Sizes 1, 1, 50: the first two free 2 bytes, so 3 need the third; its size is no reason to prefer it."""
    scores = np.array([0.3, 0.1, 0.2])
    sizes = np.array([50, 1, 1])
    facts = (scores, np.zeros(3), np.arange(3), sizes, np.ones(3, dtype=bool))
    assert victims(*facts, size=2).tolist() == [1, 2]
    assert victims(*facts, size=3).tolist() == [1, 2, 0]
    assert victims(*facts, size=1, items=2).tolist() == [1, 2]
    assert victims(*facts, size=1000).tolist() == [1, 2, 0]


def some_entries(n):
    return Entries(
        now=NOW,
        last_accessed=np.linspace(0, 99, n),
        inserted=np.arange(n),
        access_count=np.ones(n),
        prior=np.full(n, 0.5),
        evidence=np.full(n, np.nan),
    )


def test_random_is_repeatable_by_its_generator_and_draws_anew_each_time():
    one, two = np.random.default_rng(3), np.random.default_rng(3)
    first = shuffle(some_entries(50), rng=one)
    assert first.tolist() == shuffle(some_entries(50), rng=two).tolist()
    assert first.tolist() != shuffle(some_entries(50), rng=one).tolist()


def test_random_favours_nobody():
    """Each of 10 entries is the victim about every tenth time: 2 000 draws, expected 200, sigma 13.4."""
    rng = np.random.default_rng(0)
    counts = np.bincount([int(np.argmin(shuffle(some_entries(10), rng=rng))) for _ in range(2000)], minlength=10)
    assert counts.min() > 200 - 5 * 13.4
    assert counts.max() < 200 + 5 * 13.4


def test_no_policy_changes_what_it_looks_at():
    entries = some_entries(5)
    before = [entries.last_accessed.tolist(), entries.prior.tolist(), entries.inserted.tolist()]
    attention_lru(entries, rule=Rule())
    for policy in (lru, lfu, fifo):
        policy(entries)
    assert [entries.last_accessed.tolist(), entries.prior.tolist(), entries.inserted.tolist()] == before


def test_an_unknown_policy_is_named_with_the_known_ones():
    with pytest.raises(InvalidInput, match="expected one of attention_lru, lru, lfu, fifo, random, got 'mru'"):
        named("mru", rule=Rule(), rng=np.random.default_rng(0))
