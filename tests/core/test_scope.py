"""Whose memory it is: nothing of one scope is read, counted or changed through another."""

import itertools

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shared_core import Blob, InvalidInput, NotFound, TieredMemory
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
    return texts + [blob.value.decode() for blob in blobs if blob is not None]


@settings(max_examples=40, deadline=None)
@given(one=scopes, other=scopes)
def test_no_public_read_shows_another_scope(one, other):
    assume(one != other)
    numbers = itertools.count()
    with TieredMemory.open(
        ":memory:", embedder=HashEmbedder(), clock=lambda: 1.0, ids=lambda: f"i{next(numbers)}"
    ) as memory:
        for scope, text in ((one, SECRET), (other, OPEN)):
            memory.remember(text, scope=scope, id="same", tags=["t"], session="s", subject="x")
            memory.turns.end([{"role": "user", "content": text}], scope=scope, session="s")
            memory.storage.blobs.put(scope, "n", [Blob("k", text.encode(), 1.0)])
        before = memory.recall("zebra", scope=other, k=9)
        for scope, foreign in ((one, "train"), (other, "zebra")):
            shown = read_everything(memory, scope)
            assert len(shown) >= 15
            assert not [text for text in shown if foreign in text]
        # Nor does one scope's deletion, supersession or wording reach the other.
        memory.supersede("same", "a new secret", scope=one)
        memory.pin("same", scope=one)
        memory.forget("same", scope=one)
        memory.remember_many([{"text": f"train zebra {i}"} for i in range(5)], scope=one)
        memory.context("s", scope=one).clear()
        after = memory.recall("zebra", scope=other, k=9)
        assert [(hit.memory.text, hit.parts["lexical"]) for hit in after] == [
            (hit.memory.text, hit.parts["lexical"]) for hit in before
        ]
        assert memory.get("same", scope=other).pinned is False
        assert len(memory.context("s", scope=other).history()) == 1


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
