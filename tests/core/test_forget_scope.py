"""Forgetting a scope: nothing of it is left in any tier, any process, or the file; the receipt can be checked."""

import sqlite3
import time

import pytest

from shared_core import MISS, Blob, InvalidInput, Settings

REQUEST = {"model": "m", "messages": [{"role": "user", "content": "what do I drink?"}]}
ANSWER = {"role": "assistant", "content": [{"type": "text", "text": "zebra tea"}], "stop_reason": "end_turn"}


def fill(memory, scope):
    memory.tools.register("look", reads=())
    memory.remember_many([{"text": f"zebra {i}", "id": str(i)} for i in range(3)], scope=scope)
    memory.sweep(max_memories=2, scope=scope)
    memory.turns.end([{"role": "user", "content": "my zebra is ill"}], session="s", scope=scope)
    memory.context("s", scope=scope).append({"role": "tool", "content": "zebra log"})
    memory.tools.call("look", {"at": "zebra"}, lambda at: f"{at} seen", scope=scope)
    memory.responses.put(REQUEST, ANSWER, scope=scope)
    memory.storage.blobs.put(scope, "kv", [Blob("zebra", b"zebra", 1.0), Blob("2", b"zebra", 1.0)])


def shown(memory, scope):
    """Everything that any read of any tier gives of the scope."""
    found = []
    executed = memory.tools.call("look", {"at": "zebra"}, lambda at: found, scope=scope)
    plain = memory.long_term
    return [
        *plain.list(scope=scope, status=None),
        *memory.recall("zebra", scope=scope),
        *memory.recall("", scope=scope, as_of=1e11),
        *plain.retrieve_by_recency(scope=scope),
        *plain.retrieve_by_importance(scope=scope),
        *plain.retrieve_by_similarity("zebra", scope=scope),
        *plain.get_many(["0", "1", "2"], scope=scope),
        *memory.turns.begin("zebra", scope=scope, session="s").ids,
        *memory.context("s", scope=scope).history(),
        *memory.storage.logs.sessions(scope),
        *memory.storage.blobs.namespaces(scope, prefix="kv"),
        *([] if executed is found or executed == [] else [executed]),
        *([] if memory.responses.get(REQUEST, scope=scope) is MISS else ["response"]),
    ]


@pytest.mark.parametrize("location", [None, ":memory:"])
def test_everything_is_gone_and_the_receipt_says_what_it_was(open_memory, clock, location):
    memory = open_memory(location)
    fill(memory, "ada")
    receipt = memory.forget_scope("ada")
    assert (receipt.scope, receipt.at, receipt.left) == ("ada", clock.now, 0)
    assert (receipt.memories, receipt.vectors, receipt.messages) == (4, 4, 2)
    assert (receipt.tool_results, receipt.responses, receipt.blobs) == (1, 1, 2)
    assert [one for one in shown(memory, "ada") if one is not None] == []


def test_another_process_stops_returning_it_at_once(open_memory):
    memory, other = open_memory(), open_memory()
    fill(memory, "ada")
    other.tools.register("look", reads=())
    before = shown(other, "ada")
    assert "zebra seen" in before
    assert "response" in before
    assert len(before) > 12
    memory.forget_scope("ada")
    assert [one for one in shown(other, "ada") if one is not None] == []


def test_nothing_of_it_is_left_in_the_file_a_reader_can_check(open_memory, tmp_path):
    memory = open_memory()
    fill(memory, "ada")
    memory.remember("a lion", scope="bob")
    receipt = memory.forget_scope("ada")
    db = sqlite3.connect(tmp_path / "memory.db")
    tables = [
        name
        for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    ]
    scoped = [t for t in tables if "scope" in {column[1] for column in db.execute(f"PRAGMA table_info({t})")}]
    left = {t: db.execute(f"SELECT count(*) FROM {t} WHERE scope = 'ada'").fetchone()[0] for t in scoped}
    assert db.execute("SELECT count(*) FROM search_index").fetchone()[0] == 1
    assert db.execute("SELECT count(*) FROM sources").fetchone()[0] == 0
    db.close()
    assert receipt.left == 0
    assert left == {t: int(t == "scopes") for t in scoped}  # its name with two numbers, so that others see it is gone
    memory.close()
    assert [one.name for one in tmp_path.iterdir() if b"zebra" in one.read_bytes()] == []


def test_a_call_under_way_while_its_scope_is_forgotten_keeps_nothing(open_memory):
    memory = open_memory()
    memory.tools.register("look", reads=())

    def slow(at):
        memory.forget_scope("ada")
        return "zebra"

    memory.tools.call("look", {"at": 1}, slow)
    memory.responses.call(REQUEST, lambda: (memory.forget_scope("ada"), ANSWER)[1])
    assert memory.tools.call("look", {"at": 1}, lambda at: "anew") == "anew"
    assert memory.responses.get(REQUEST) is MISS


def test_reads_that_wait_to_be_written_down_do_not_bring_anything_back(open_memory):
    memory, other = open_memory(), open_memory()
    memory.remember("zebra", id="1")
    memory.recall("zebra")
    other.recall("zebra")
    memory.forget_scope("ada")
    memory.remember("zebra", id="1")
    other.remember("lion", id="2")
    assert memory.get("1").access_count <= 1
    assert {one.id for one in memory.long_term.list()} == {"1", "2"}
    assert memory.check().ok


def test_other_scopes_keep_everything(open_memory):
    memory = open_memory()
    for scope in ("ada", "Ada", "ada "):
        fill(memory, scope)
    before = {scope: len(shown(memory, scope)) for scope in ("Ada", "ada ")}
    memory.forget_scope("ada")
    for scope in ("Ada", "ada "):
        assert len(shown(memory, scope)) == before[scope]
        assert len(memory.recall("zebra", scope=scope)) == 3


def test_answers_that_all_scopes_share_go_with_any_of_them_also_by_a_process_that_knows_of_none(open_memory, tmp_path):
    """They may repeat what the user said, and after a forget none is given again: so nothing is lost with them."""
    memory = open_memory()
    memory.responses.share("for all")
    memory.responses.put(REQUEST, ANSWER, scope="for all")
    memory.responses.put(REQUEST, ANSWER, scope="bob")
    memory.remember("I drink zebra tea.", scope="ada")
    with open_memory() as administration:
        assert administration.forget_scope("ada").responses == 0  # they are nobody's
    assert memory.responses.get(REQUEST, scope="for all") is MISS
    assert memory.responses.get(REQUEST, scope="bob") is not MISS
    db = sqlite3.connect(tmp_path / "memory.db")
    assert db.execute("SELECT scope FROM blobs WHERE instr(value, CAST('zebra' AS BLOB))").fetchall() == [("bob",)]
    db.close()


def test_the_repeats_in_the_stats_name_no_call_of_a_forgotten_scope(open_memory):
    memory = open_memory()
    memory.tools.register("look", reads=())
    for scope in ("ada", "bob", "ada", "bob"):
        memory.tools.call("look", {"at": f"what {scope} fears"}, lambda at: at, scope=scope)
    memory.forget_scope("ada")
    assert [one["scope"] for one in memory.tools.stats()["repeats"]] == ["bob"]


def test_answers_that_all_scopes_share_in_memory_go_too(open_memory):
    memory = open_memory(":memory:")
    memory.responses.share("for all")
    memory.responses.put(REQUEST, ANSWER, scope="for all")
    memory.forget_scope("ada")
    assert memory.responses.stats()["entries"] == 0


def test_forgetting_a_stranger_counts_nothing_and_a_scope_must_be_named(open_memory):
    memory = open_memory()
    receipt = memory.forget_scope("stranger")
    assert (receipt.memories, receipt.messages, receipt.blobs, receipt.left) == (0, 0, 0, 0)
    for wrong in ("", None, 3):
        with pytest.raises(InvalidInput, match="scope: expected"):
            memory.forget_scope(wrong)


def test_what_the_planner_knows_of_its_conversations_is_gone_too(open_memory):
    memory = open_memory()
    messages = [{"role": "user", "content": "zebra " * 3_000}]
    for scope in ("ada", "Ada"):
        memory.prompts.plan(model="claude-sonnet-4-5", messages=messages, session="s", scope=scope)
    memory.forget_scope("ada")
    assert memory.prompts.clear_scope("ada") == 0
    assert memory.prompts.clear_scope("Ada") == 1


def test_the_scope_can_be_used_again(open_memory):
    memory = open_memory(clock=time.time, settings=Settings(max_memories=2))
    fill(memory, "ada")
    memory.forget_scope("ada")
    memory.remember("I like tea.", id="0", subject="drink")
    assert [hit.memory.id for hit in memory.recall("tea")] == ["0"]
    assert memory.context("s").history() == []
