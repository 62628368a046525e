"""Whose memory it is: nothing of one scope is read, counted or changed through another."""

import itertools
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shared_core import Blob, InvalidInput, NotFound, TieredMemory, Uncached, check_memory
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
nameable = st.characters(codec="utf-8", exclude_characters="\x1f")
scopes = st.one_of(st.sampled_from(LOOKALIKES), st.text(nameable, min_size=1, max_size=5))
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


INNER = "ada\x1flanggraph.store"
WAYS_IN = {
    "remember": lambda m, s: m.remember("x", scope=s),
    "an item of its own scope": lambda m, s: m.remember_many([{"text": "x", "scope": s}], scope="ada"),
    "recall": lambda m, s: m.recall("x", scope=s),
    "get": lambda m, s: m.get("x", scope=s),
    "list": lambda m, s: m.long_term.list(scope=s),
    "retrieve": lambda m, s: m.long_term.retrieve_by_recency(scope=s),
    "forget": lambda m, s: m.forget("x", scope=s),
    "supersede": lambda m, s: m.supersede("x", "y", scope=s),
    "pin": lambda m, s: m.pin("x", scope=s),
    "sweep": lambda m, s: m.sweep(scope=s),
    "forget_scope": lambda m, s: m.forget_scope(s),
    "export": lambda m, s: m.export("never.jsonl", scope=s),
    "context": lambda m, s: m.context("s", scope=s),
    "sessions": lambda m, s: m.sessions(scope=s),
    "begin": lambda m, s: m.turns.begin("x", scope=s),
    "end": lambda m, s: m.turns.end([], session="s", scope=s),
    "tools": lambda m, s: m.tools.call("t", {}, lambda: 1, scope=s),
    "invalidate": lambda m, s: m.tools.invalidate("t", {}, scope=s),
    "clear tools": lambda m, s: m.tools.clear_scope(s),
    "responses": lambda m, s: m.responses.get({"model": "m"}, scope=s),
    "share": lambda m, s: m.responses.share(s),
    "plan": lambda m, s: m.prompts.plan(model="claude-sonnet-5", messages=[], scope=s),
    "clear prompts": lambda m, s: m.prompts.clear_scope(s),
    "an adapter": check_memory,
    "default": lambda _, s: TieredMemory.open(":memory:", default_scope=s),
}


@pytest.mark.parametrize("way", WAYS_IN)
def test_no_name_that_a_user_gives_is_that_of_an_inner_scope(memory, way):
    with pytest.raises(InvalidInput, match=r"without the separator U\+001F"):
        WAYS_IN[way](memory, INNER)


def test_no_imported_line_is_of_an_inner_scope(memory, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps({"id": "1", "text": "x", "scope": INNER}))
    with pytest.raises(InvalidInput, match=r"U\+001F"):
        memory.import_(path)


def test_an_inner_scope_keeps_apart_and_is_erased_with_its_outer_one(memory):
    inner = memory.inner_scope("part", scope="ada")
    memory.remember("in the inner one", scope=inner)
    memory.remember("in the outer one", scope="ada")
    memory.remember("in another one", scope="adam")
    assert [hit.memory.text for hit in memory.recall("in the one", scope=inner)] == ["in the inner one"]
    assert [hit.memory.text for hit in memory.recall("in the one", scope="ada")] == ["in the outer one"]
    receipt = memory.forget_scope("ada")
    assert (receipt.memories, receipt.left) == (1, 0)
    assert memory.long_term.list(scope=inner) == []
    assert memory.storage.memories.scopes() == ["adam"]


def test_an_inner_scope_without_memories_is_erased_with_its_outer_one_and_counted(open_memory, tmp_path):
    """An adapter may keep only bytes, a conversation or cached results there: all of it is the user's."""
    memory, other = open_memory(), open_memory()
    inner, neighbour = memory.inner_scope("part", scope="ada"), memory.inner_scope("part", scope="adam")
    for one in (inner, neighbour):
        fill(memory, one, SECRET)
        memory.forget(["same", *(item.id for item in memory.long_term.list(scope=one))], scope=one)
        memory.forget("gone", scope=one)
    other.tools.register("look", reads=())
    assert memory.storage.memories.scopes() == []
    receipt = memory.forget_scope("ada")
    assert (receipt.memories, receipt.messages, receipt.blobs, receipt.left) == (0, 1, 1, 0)
    assert (receipt.tool_results, receipt.responses) == (1, 1)
    for one in (memory, other):
        assert [text for text in read_everything(one, inner) if text] == []
        assert one.storage.blobs.get(neighbour, "n", ["k"], now=2.0) != [None]
        assert one.context("s", scope=neighbour).history() != []
