"""``shown_texts``: what a reader has before it is not recalled on top, and a long conversation makes no turn dearer."""

import sqlite3

import pytest

from shared_core import InvalidInput, Settings, TieredMemory
from shared_core.messages import text_of
from shared_core.testing import FakeClock


def opened(**settings):
    settings = Settings(recall_k=3, **settings)
    return TieredMemory.open(":memory:", default_scope="ada", embedder="none", clock=FakeClock(), settings=settings)


def test_a_text_is_masked_once_however_often_it_is_shown():
    masked = []

    def mask(text):
        masked.append(text)
        return text.replace("4711", "[masked]")

    with opened(mask=mask) as memory:
        memory.remember("The code is 4711.")
        memory.remember("The code has changed.")
        masked.clear()
        for _ in range(3):
            hits = memory.recall("code", shown_texts=["the code is 4711."])
            assert [hit.memory.text for hit in hits] == ["The code has changed."]
    assert masked == ["the code is 4711."]


def test_what_was_passed_over_comes_back_once_it_is_no_longer_shown():
    with opened() as memory:
        memory.remember("The code is long.")
        for _ in range(2):
            assert memory.recall("code", shown_texts=["The code is long."]) == []
        assert [hit.memory.text for hit in memory.recall("code", shown_texts=["Another."])] == ["The code is long."]
        assert [hit.memory.text for hit in memory.recall("code")] == ["The code is long."]


def test_a_forgotten_id_that_is_used_again_is_judged_by_its_new_text():
    with opened() as memory:
        memory.remember("The code is long.", id="m1")
        for _ in range(2):
            assert memory.recall("code", shown_texts=["The code is long."]) == []
        memory.forget(["m1"])
        memory.remember("The code is short.", id="m1")
        hits = memory.recall("code", shown_texts=["The code is long."])
    assert [hit.memory.text for hit in hits] == ["The code is short."]


@pytest.mark.parametrize("saved", [0, 5])
def test_the_statements_of_a_turn_do_not_grow_with_the_conversation(tmp_path, monkeypatch, saved):
    statements = []
    connect = sqlite3.connect

    def counted(*args, **kwargs):
        db = connect(*args, **kwargs)
        db.set_trace_callback(statements.append)
        return db

    monkeypatch.setattr(sqlite3, "connect", counted)
    settings = Settings(recall_k=3)
    with TieredMemory.open(
        tmp_path / "m.db", default_scope="ada", embedder="none", clock=FakeClock(), settings=settings
    ) as memory:
        for n in range(saved):
            memory.remember(f"an earlier word, number {n}")
        shown, counts = [], []
        for n in range(120):
            said = [f"word number {n} of the user", f"word number {n} of the model"]
            statements.clear()
            memory.turns.begin(said[0], session="s", shown_texts=[*shown, said[0]])
            pairs = [{"role": role, "content": text} for role, text in zip(("user", "assistant"), said, strict=True)]
            memory.turns.end(pairs, session="s")
            shown += said
            counts.append(len(statements))
    assert max(counts[100:]) <= max(counts[10:20])


@pytest.mark.parametrize("content", [[{"type": "text", "text": "The code is 4711."}], None])
def test_content_that_is_no_string_is_refused_with_what_makes_one_of_it(content):
    """The content of a message is often a list of blocks: ``message["content"]`` is then no text."""
    with opened() as memory, pytest.raises(InvalidInput, match=r"shown_texts: .*write text_of\(message\)"):
        memory.turns.begin("code?", session="s", shown_texts=[content])


def test_a_message_of_blocks_is_passed_over_by_its_text():
    with opened() as memory:
        memory.remember("The code is 4711.")
        shown = [{"role": "user", "content": [{"type": "text", "text": "The code is 4711."}]}]
        assert memory.turns.begin("the code", session="s", shown_texts=map(text_of, shown)).hits == ()
