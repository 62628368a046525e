"""Whose memory it is: nothing of one scope is read, counted or changed through another."""

import itertools
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shared_core import Blob, InvalidInput, NotFound, TieredMemory, Uncached
from shared_core.testing.embedders import HashEmbedder

LOOKALIKES = [
    "a",
    "A",
    "a ",
    " a",
    "ab",
    "a\0",
    "a\0b",
    "а",
    "ａ",
    "é",
    "e\u0301",
    "%",
    "_",
    "*",
    "a%",
    "a'",
    'a"',
    "🙂",
    "ß",
    "ss",
]
scopes = st.one_of(st.sampled_from(LOOKALIKES), st.text(st.characters(codec="utf-8"), min_size=1, max_size=5))
SECRET, OPEN = "the zebra sleeps in the cellar", "the train leaves at noon"


def read_everything(memory, scope):
    """All that the public read paths show a scope, as one list of texts."""
    plain = memory.long_term
    hits = [
        *memory.recall("zebra cellar", scope=scope, k=50),
        *memory.recall("", scope=scope, k=50),
        *memory.recall("zebra", scope=scope, k=50, tags=["t"]),
        *memory.recall("zebra", scope=scope, k=50, session="s"),
        *memory.recall("zebra", scope=scope, k=50, as_of=1e11),
        *memory.sweep(scope=scope, max_memories=0, dry_run=True).victims,
        *memory.turns.begin("zebra", scope=scope, session="s").hits,
    ]
    found = [hit.memory for hit in hits]
    for some in (
        plain.list(scope=scope, status=None),
        plain.retrieve_by_recency(scope=scope),
        plain.retrieve_by_importance(scope=scope),
        plain.retrieve_by_tags(["t"], scope=scope),
        plain.retrieve_by_similarity("zebra", scope=scope),
        [memory.get("same", scope=scope)],
    ):
        found += [item for item in some if item is not None]
    texts = [item.text for item in found]
    texts += [message["content"] for message in memory.context("s", scope=scope).history()]
    texts += [memory.turns.begin("zebra", scope=scope).block]
    blobs = memory.storage.blobs.get(scope, "n", ["k"], now=2.0)
    texts += [blob.value.decode() for blob in blobs if blob is not None]
    texts += [item.text for item in plain.get_many(["same", "gone"], scope=scope) if item is not None]
    restored = memory.turns.restore(["same"], "no digest", scope=scope)
    assert restored is None
    texts += [one.memory.text for one in memory.storage.upkeep.whole(scope)]
    with tempfile.TemporaryDirectory() as folder:
        memory.export(Path(folder) / "out.jsonl", scope=scope, vectors=True)
        texts += [json.loads(line)["text"] for line in (Path(folder) / "out.jsonl").read_text().splitlines()]
    response = memory.responses.get(REQUEST, scope=scope)
    texts += [response["content"][0]["text"]] if response else []
    kept = memory.tools.call("look", {"x": 1}, lambda x: Uncached(None), scope=scope)
    return texts + ([kept] if kept is not None else [])


REQUEST = {"model": "m", "messages": [{"role": "user", "content": "what happens next?"}]}


def fill(memory, scope, text):
    memory.tools.register("look", reads=())
    memory.remember(text, scope=scope, id="same", tags=["t"], session="s", subject="x")
    memory.remember(f"{text} at last", scope=scope, id="gone", importance=0.0)
    memory.turns.end([{"role": "user", "content": text}], scope=scope, session="s")
    memory.storage.blobs.put(scope, "n", [Blob("k", text.encode(), 1.0)])
    memory.tools.call("look", {"x": 1}, lambda x: text, scope=scope)
    answer = {"role": "assistant", "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}
    memory.responses.put(REQUEST, answer, scope=scope)


def opened():
    numbers = itertools.count()
    return TieredMemory.open(":memory:", embedder=HashEmbedder(), clock=lambda: 1.0, ids=lambda: f"i{next(numbers)}")


def asked(memory, scope):
    """What a scope's recalls and sweeps answer, with every part of every score."""
    hits = [*memory.recall("zebra train", scope=scope, k=9), *memory.recall("the cellar at noon", scope=scope, k=9)]
    hits += memory.sweep(scope=scope, max_memories=0, dry_run=True).victims
    return [(hit.memory.text, hit.score, dict(hit.parts)) for hit in hits]


@settings(max_examples=40, deadline=None)
@given(one=scopes, other=scopes)
def test_no_public_read_shows_another_scope(one, other):
    assume(one != other)
    with opened() as memory, opened() as alone:
        fill(memory, one, SECRET)
        fill(memory, other, OPEN)
        fill(alone, other, OPEN)
        for scope, foreign in ((one, "train"), (other, "zebra")):
            shown = read_everything(memory, scope)
            assert len(shown) >= 30
            assert not [text for text in shown if foreign in text]
        # Neither the words of one scope nor anything done to it changes what the other answers, to the last digit.
        read_everything(alone, other)
        assert asked(memory, other) == asked(alone, other)
        memory.supersede("same", "a new secret", scope=one)
        memory.pin("same", scope=one)
        memory.forget("gone", scope=one)
        memory.remember_many([{"text": f"train zebra {i}"} for i in range(5)], scope=one)
        memory.sweep(scope=one, max_memories=2)
        memory.context("s", scope=one).clear()
        memory.tools.clear_scope(one)
        memory.responses.clear_scope(one)
        assert asked(memory, other) == asked(alone, other)
        assert read_everything(memory, other) == read_everything(alone, other)
        # Forgotten, it shows nothing; the other is as it was.
        memory.forget_scope(one)
        assert [text for text in read_everything(memory, one) if text] == []
        assert asked(memory, other) == asked(alone, other)
        assert read_everything(memory, other) == read_everything(alone, other)
        assert memory.get("same", scope=other).pinned is False
        assert memory.storage.memories.scopes() == [other]


@pytest.mark.parametrize("wrong", ["", None, 3, b"a", "\ud800"])
def test_a_scope_is_a_string_that_is_not_empty(open_memory, wrong):
    with pytest.raises(InvalidInput, match="scope: expected"):
        open_memory(":memory:", default_scope=None).remember("x", scope=wrong)


def test_an_item_of_its_own_scope_goes_there(memory):
    kept = memory.remember_many([{"text": "one", "scope": "bob"}, {"text": "two"}], scope="eve")
    assert [item.scope for item in kept] == ["bob", "eve"]
    assert memory.long_term.list() == []


def test_a_snapshot_of_another_scope_is_not_found(memory):
    node = memory.context("s", scope="bob").append({"role": "user", "content": "x"})
    for scope in ("ada", "Bob"):
        with pytest.raises(NotFound):
            memory.context("s", scope=scope).rewind(node)
