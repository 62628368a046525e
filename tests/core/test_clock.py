"""A clock that is wrong, even beyond any calendar, fails no turn, no recall and no write."""

import datetime as dt
import math

import pytest

from shared_core import TieredMemory
from shared_core.arguments import reading
from shared_core.long_term.times import spans

BEYOND = [1e308, -1e308, math.inf, -math.inf, math.nan, 253_402_387_200.0, -7e10]
QUESTION = "What did I eat last month, yesterday, 3 weeks ago, in May, 上周五?"


@pytest.mark.parametrize("now", BEYOND)
def test_a_clock_beyond_the_calendar_fails_nothing(tmp_path, now):
    times = [0.0]
    with TieredMemory.open(tmp_path / "m.db", embedder="none", default_scope="ada", clock=lambda: times[0]) as memory:
        memory.remember("I had pizza.")
        times[0] = now
        assert "pizza" in memory.turns.begin(QUESTION + " pizza").block
        memory.turns.end([{"role": "user", "content": "I had soup."}], session="s")
        assert {hit.memory.text for hit in memory.recall("what had I", session="s")} == {"I had pizza.", "I had soup."}
        memory.context("s").rewind(memory.context("s").snapshot())
        assert memory.tools.call("t", {}, lambda: 1) == 1
        assert memory.sweep(max_memories=1).kept == 1
        assert memory.check().ok
        times[0] = 1.0
        assert memory.recall("soup pizza")
        assert memory.check().ok


@pytest.mark.parametrize("now", BEYOND)
def test_words_for_a_time_mean_none_seen_from_no_possible_date(now):
    assert spans(QUESTION, now=now) == ()


def test_a_clock_is_read_as_it_is_within_the_calendar_and_as_its_first_or_last_second_beyond():
    assert [reading(t) for t in (0, 1.7e9, -1.0)] == [0, 1.7e9, -1.0]
    assert dt.datetime.fromtimestamp(reading(-math.inf), dt.UTC).year == 1
    assert dt.datetime.fromtimestamp(reading(math.inf), dt.UTC).year == 9999
    assert reading(math.nan) == 0.0
