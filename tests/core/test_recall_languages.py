"""Conversations between people, short and badly typed, in several languages: what holds for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime

import pytest

from shared_core import InvalidInput, TieredMemory
from shared_core.testing import FakeClock

NOW = datetime(2024, 5, 15, 15, 30, tzinfo=UTC).timestamp()
DAY = 86_400.0


Told = Callable[..., TieredMemory]


@pytest.fixture
def told() -> Iterator[Told]:
    """A chat of two people: who, what, how many days ago. Words alone, so that the mechanism shows."""
    with ExitStack() as opened:

        def made(*turns: tuple[str, str, float]) -> TieredMemory:
            clock = FakeClock(NOW)
            memory = TieredMemory.open(":memory:", embedder="none", default_scope="chat", clock=clock)
            opened.enter_context(memory)
            for speaker, text, days in turns:
                memory.remember(text, speaker=speaker, session="chat", at=NOW - days * DAY)
            return memory

        yield made


def first(memory: TieredMemory, query: str) -> str:
    return memory.recall(query, k=1)[0].memory.text


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ("¿Qué comió Marta ayer?", ("comimos paella jaja 🥘", "comimos lentejas otra vez")),
        ("Qu'est-ce que Marta a mangé hier ?", ("on a mangé une raclette 🧀", "on a mangé des pâtes")),
        ("Was hat Marta gestern gegessen?", ("haben linsen gegessen 😋", "haben nudeln gegessen")),
        ("昨日Martaは何を食べた？", ("寿司を食べたよ🍣", "うどんを食べたよ")),
        ("어제 Marta는 뭐 먹었어?", ("비빔밥 먹었어 ㅋㅋ", "김밥 먹었어 ㅋㅋ")),
        ("Marta昨天吃了什么？", ("吃了火锅哈哈", "吃了饺子哈哈")),
    ],
)
def test_of_two_like_statements_the_one_of_the_time_that_is_named_comes_first(
    told: Told, query: str, texts: tuple[str, str]
) -> None:
    for yesterdays, older in (texts, texts[::-1]):
        assert first(told(("Marta", older, 9), ("Jo", "👍👍", 9), ("Marta", yesterdays, 1)), query) == yesterdays


def test_what_is_due_tomorrow_is_found_by_its_event_time(told: Told) -> None:
    memory = told(("李雷", "去看牙医", -1), ("李雷", "去看电影", 3))
    assert first(memory, "李雷明天去干什么？") == "去看牙医"
    assert first(memory, "李雷大前天去干什么？") == "去看电影"


def test_a_number_is_found_in_digits_or_in_words(told: Told) -> None:
    memory = told(("李雷", "我女儿今年三岁了", 1), ("韩梅", "我儿子今年五岁了", 1), ("李雷", "哈哈", 0))
    assert first(memory, "谁家孩子3岁？") == "我女儿今年三岁了"
    assert first(memory, "谁家孩子５岁？") == "我儿子今年五岁了"


def test_the_one_number_that_tells_outweighs_a_phrase_that_many_say(told: Told) -> None:
    memory = told(
        *(("李雷", f"同事{name}的联系电话是1360000{i:04d}", 1.0) for i, name in enumerate("甲乙丙丁戊")),
        ("韩梅", "她手机13912345678", 1),
    )
    assert first(memory, "联系电话是13912345678的人是谁？") == "她手机13912345678"


def test_of_a_pasted_file_the_question_at_its_end_is_read(told: Told) -> None:
    memory = told(("Ann", "my locker code is 4411", 1), ("Bob", "the ferry leaves at noon", 1))
    assert first(memory, "lorem ferry " * 100_000 + ". locker code?") == "my locker code is 4411"
    assert memory.long_term.retrieve_by_similarity("ferry " * 100_000 + "locker " * 2_000)[0].speaker == "Ann"


def test_a_query_that_is_no_text_is_refused_by_every_search(told: Told) -> None:
    memory = told(("Ann", "hi", 1))
    for search in (memory.recall, memory.long_term.retrieve_by_similarity):
        with pytest.raises(InvalidInput, match="query: expected a string, got NoneType"):
            search(None)  # type: ignore[arg-type]
