"""The optional hooks of recall and of writing: off by default, and never in the way when they fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from shared_core import Hit, Memory, TieredMemory
from shared_core.errors import InvalidInput
from shared_core.settings import Settings
from shared_core.testing import FakeClock


def opened(**hooks: Any) -> TieredMemory:
    memory = TieredMemory.open(
        ":memory:", embedder="none", default_scope="ada", settings=Settings(**hooks), clock=FakeClock(0.0)
    )
    memory.remember("Tea is in the left drawer.")
    memory.remember("The tea pot is blue.")
    memory.remember("Cats sleep all day.")
    return memory


def texts(hits: Sequence[Hit]) -> list[str]:
    return [hit.memory.text for hit in hits]


def without_hooks(query: str, **asked: Any) -> list[str]:
    with opened() as memory:
        return texts(memory.recall(query, **asked))


def test_a_rewritten_query_is_the_one_that_recalls() -> None:
    asked = []

    def rewrite(query: str) -> str:
        asked.append(query)
        return "cats"

    with opened(rewrite=rewrite) as memory:
        assert texts(memory.recall("felines", k=1)) == ["Cats sleep all day."]
    assert asked == ["felines"]


@pytest.mark.parametrize("broken", [lambda _: 1 / 0, lambda _: None, lambda _: "  "])
def test_a_rewrite_that_fails_leaves_the_query_as_it_is_and_is_counted(broken: Callable[[str], Any]) -> None:
    with opened(rewrite=broken) as memory:
        assert texts(memory.recall("cats", k=1)) == ["Cats sleep all day."]
        assert memory.stats()["long_term"]["rewrite_failures"] == 1


def test_a_reranker_decides_on_places_among_more_hits_than_were_asked_for() -> None:
    given: list[list[str]] = []

    def rerank(query: str, hits: list[Hit]) -> list[Hit]:
        assert query == "tea"
        given.append(texts(hits))
        return hits[::-1]

    with opened(rerank=rerank) as memory:
        (hit,) = memory.recall("tea", k=1)
        assert given == [without_hooks("tea", k=4)]
        assert hit.memory.text == given[0][-1]
        assert hit.score == sum(hit.parts.values())
        assert [one.access_count for one in memory.long_term.list() if one.access_count] == [1]


def test_a_reranker_may_leave_hits_out_and_cannot_bring_its_own() -> None:
    with opened(rerank=lambda _, hits: [hits[1], hits[1]]) as memory:
        assert texts(memory.recall("tea")) == without_hooks("tea")[1:2]
    with opened() as other:
        stranger = other.remember("A stranger.")
    with opened(rerank=lambda _, hits: [Hit(stranger, 1.0, {}), *hits]) as memory:
        assert texts(memory.recall("tea")) == without_hooks("tea")
        assert memory.stats()["long_term"]["rerank_failures"] == 1


def test_a_budget_holds_whatever_the_reranker_prefers() -> None:
    with opened(rerank=lambda _, hits: hits[::-1], count_tokens=len) as memory:
        hits = memory.recall("tea", max_tokens=30)
        assert 0 < sum(len(hit.memory.text) for hit in hits) <= 30


def test_a_reranker_that_fails_leaves_the_order_of_the_scores() -> None:
    with opened(rerank=lambda _, hits: hits[0].nothing) as memory:
        assert texts(memory.recall("tea")) == without_hooks("tea")
        assert memory.stats()["long_term"]["rerank_failures"] == 1


def test_a_scorer_rates_what_came_without_importance_in_one_call() -> None:
    calls: list[list[str]] = []

    def score(several: Sequence[str]) -> list[float]:
        calls.append(list(several))
        return [0.9 for _ in several]

    with opened(score_importance=score) as memory:
        calls.clear()
        one, two, three = memory.remember_many([{"text": "a b"}, {"text": "c d", "importance": 0.1}, {"text": "e f"}])
        assert calls == [["a b", "e f"]]
        assert [one.importance, two.importance, three.importance] == [0.9, 0.1, 0.9]
        assert memory.supersede(one.id, "g h").importance == 0.9


@pytest.mark.parametrize("broken", [lambda _: 1 / 0, lambda _: [0.5, 0.5], lambda _: [7.0], lambda _: ["high"]])
def test_a_scorer_that_fails_leaves_the_importance_computed_from_the_text(broken: Callable[[Any], Any]) -> None:
    with opened(score_importance=broken) as memory, opened() as plain:
        assert memory.remember("x y").importance == plain.remember("x y").importance
        assert memory.stats()["long_term"]["importance_failures"] == 4  # three of them when it was filled


def test_a_hook_that_is_no_function_is_refused_when_the_settings_are_made() -> None:
    for name in ("mask", "rewrite", "rerank", "score_importance"):
        with pytest.raises(InvalidInput, match=name):
            Settings(**{name: "on"})


def test_a_hit_shows_its_parts_as_bars_and_its_text_escaped() -> None:
    with opened() as memory:
        memory.remember("<script>alert('tea')</script>", speaker="<b>Eve</b>")
        html = memory.recall("alert script", k=1)[0]._repr_html_()
    assert "<script>" not in html
    assert "<b>Eve" not in html
    assert "&lt;script&gt;alert(&#x27;tea&#x27;)" in html
    assert "lexical" in html
    assert "width:10.00em" in html


def test_a_hit_reads_as_one_line_with_the_parts_that_are_not_0_and_the_id() -> None:
    hit = Hit(
        Memory("m1", "Zoe lives  in\nLisbon.", "ada", speaker="Ada"),
        1.5,
        {"lexical": 1.62, "role": 0.0, "question": -0.12},
    )
    assert repr(hit) == "<Hit 1.500 Ada: 'Zoe lives in Lisbon.' = lexical +1.620 question -0.120; id m1>"


def test_a_memory_says_which_file_it_is_and_what_it_recalls_with(tmp_path: Path) -> None:
    with TieredMemory.open(tmp_path / "a.db", embedder="none", default_scope="ada") as memory:
        assert repr(memory) == (
            f"<TieredMemory {tmp_path / 'a.db'}, default_scope='ada', embedder none: recall goes by words alone>"
        )


@pytest.mark.parametrize(
    "broken", [lambda _: 1 / 0, lambda _: -5, lambda _: float("nan"), lambda _: "7", lambda _: None]
)
def test_tokens_are_estimated_where_the_counter_fails_or_returns_no_count_and_that_is_counted(
    broken: Callable[[str], Any],
) -> None:
    with opened(count_tokens=broken) as memory:
        assert texts(memory.recall("tea", max_tokens=12)) == without_hooks("tea", max_tokens=12)
        failures = memory.stats()["long_term"]["count_failures"]
        assert failures > 0
        assert "tea pot" in memory.turns.begin("What colour is the tea pot?").block
        assert memory.stats()["long_term"]["count_failures"] > failures


def test_a_share_of_a_token_counts_as_one() -> None:
    with opened(count_tokens=lambda text: len(text) / 8) as memory:  # 26 / 8, 21 / 8 and 19 / 8: 4, 3 and 3
        assert len(memory.recall("", max_tokens=9)) == 2
        assert len(memory.recall("", max_tokens=10)) == 3
        assert memory.stats()["long_term"]["count_failures"] == 0
