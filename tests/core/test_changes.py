"""What forget, get, pin, list and supersede promise."""

import pytest

from shared_core import (
    InvalidInput,
    NotFound,
)


def texts(found):
    return [(hit.memory if hasattr(hit, "memory") else hit).text for hit in found]


# -- forget, get, pin, list ------------------------------------------------------------------------


def test_forget_counts_what_there_was_and_frees_the_id(memory):
    memory.remember("Tea.", id="1")
    memory.remember("Coffee.", id="2")
    assert memory.forget(["1", "unknown", "1"]) == 1
    assert memory.forget("1") == 0
    assert memory.forget([]) == 0
    assert memory.get("1") is None
    assert texts(memory.recall("tea")) == ["Coffee."]
    assert memory.remember("Juice.", id="1").text == "Juice."
    assert set(texts(memory.recall("juice"))) == {"Juice.", "Coffee."}


def test_a_forgotten_id_can_be_used_again_while_another_index_is_open(open_memory):
    one, other = open_memory(), open_memory()
    one.remember("Tea with milk.", id="1")
    assert texts(other.recall("tea")) == ["Tea with milk."]
    one.forget("1")
    one.remember("Black coffee.", id="1")
    assert texts(other.recall("tea")) == ["Black coffee."]
    one.forget("1")
    assert other.recall("tea") == []


def test_forgotten_text_is_gone_from_the_file(open_memory, tmp_path):
    memory = open_memory()
    memory.remember("the zebra password is swordfish", id="1")
    memory.remember("something else", id="2")
    memory.forget("1")
    for file in tmp_path.iterdir():
        assert b"swordfish" not in file.read_bytes(), file
        assert b"zebra" not in file.read_bytes(), file
    memory.close()
    assert {file.name for file in tmp_path.iterdir()} == {"memory.db"}
    assert b"swordfish" not in (tmp_path / "memory.db").read_bytes()


def test_get_of_a_stranger_is_none_and_pin_is_not_found(memory):
    assert memory.get("unknown") is None
    with pytest.raises(NotFound, match="'unknown'"):
        memory.pin("unknown")
    with pytest.raises(LookupError):
        memory.supersede("unknown", "text")


def test_list_is_newest_first_by_status(memory, clock):
    for text in ("one", "two", "three"):
        memory.remember(text, id=text)
        clock.advance(1)
    memory.pin(memory.supersede("one", "uno").id)
    memory.sweep(max_memories=1)
    assert [texts(memory.long_term.list(status=status)) for status in ("active", "superseded", "archived")] == [
        ["uno"], [], ["three", "two", "one"],
    ]  # fmt: skip
    assert texts(memory.long_term.list(status=None, limit=2)) == ["uno", "three"]
    with pytest.raises(InvalidInput, match="status: expected one of active, superseded, archived"):
        memory.long_term.list(status="live")


# -- supersession ----------------------------------------------------------------------------------


def test_the_newest_of_a_subject_is_live_and_the_others_are_history(memory, clock):
    for i, city in enumerate(["Paris", "Rome", "Oslo"]):
        memory.remember(f"Ada lives in {city}.", subject="home", id=city)
        clock.advance(100)
        assert texts(memory.recall("where does Ada live?")) == [f"Ada lives in {city}."]
        assert len(memory.long_term.list()) == 1, i
    start = clock.now - 300
    assert [texts(memory.recall("Ada", as_of=start + after)) for after in (50, 150, 250)] == [
        ["Ada lives in Paris."], ["Ada lives in Rome."], ["Ada lives in Oslo."],
    ]  # fmt: skip


def test_a_subject_said_again_is_current_again(memory):
    for city in ("Paris", "Rome", "Paris"):
        memory.remember(f"Ada lives in {city}.", subject="home")
    assert texts(memory.recall("where does Ada live?")) == ["Ada lives in Paris."]


def test_history_told_late_never_surfaces_as_current(memory):
    memory.remember("Ada lives in Rome.", subject="home", at=2024.0)
    memory.remember("Ada lives in Paris.", subject="home", at=2018.0)
    memory.remember("Ada lives in Bern.", subject="home", at=2020.0)
    assert texts(memory.recall("where does Ada live?")) == ["Ada lives in Rome."]
    assert [texts(memory.recall("Ada", as_of=t)) for t in (2017.0, 2019.0, 2021.0, 2024.0)] == [
        [], ["Ada lives in Paris."], ["Ada lives in Bern."], ["Ada lives in Rome."],
    ]  # fmt: skip


def test_a_clock_set_back_does_not_hide_the_newest(memory, clock):
    memory.remember("Ada lives in Rome.", subject="home")
    clock.advance(-3600)
    memory.remember("Ada lives in Oslo.", subject="home")
    assert texts(memory.recall("where does Ada live?")) == ["Ada lives in Oslo."]


def test_superseding_keeps_who_said_it_and_what_hangs_on_it(memory):
    memory.remember(
        "Old.", id="1", role="assistant", speaker="Bob", session="s", tags=["x"], pinned=True, metadata={"a": 1}
    )
    new = memory.supersede("1", "New.")
    assert (new.role, new.speaker, new.session, new.tags, new.pinned, new.metadata) == (
        "assistant", "Bob", "s", ("x",), True, {"a": 1},
    )  # fmt: skip


def test_superseding_the_same_memory_twice_leaves_one_current(memory):
    memory.remember("Ada loves tea.", id="1")
    memory.supersede("1", "Ada hates tea.")
    memory.supersede("1", "Ada drinks tea.")
    assert texts(memory.recall("Ada tea")) == ["Ada drinks tea."]


def test_forgetting_a_successor_does_not_bring_the_replaced_back(memory):
    memory.remember("Ada loves tea.", id="1")
    new = memory.supersede("1", "Ada hates tea.")
    memory.forget(new.id)
    assert memory.recall("Ada tea") == []
    assert texts(memory.recall("Ada tea", as_of=new.at - 1)) == []  # it was written in the same second
    assert memory.get("1").status == "superseded"
