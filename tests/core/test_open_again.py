"""What holds an open file is not carried into another process, and says what to do there."""

import copy
import pickle

import pytest

from shared_core import InvalidInput, TieredMemory, check_memory

PARTS = {
    "memory": lambda memory: memory,
    "context": lambda memory: memory.context("s1"),
    "tools": lambda memory: memory.tools,
    "responses": lambda memory: memory.responses,
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("carry", [pickle.dumps, copy.deepcopy])
def test_pickle_and_deepcopy_say_to_open_the_file_again(memory, part, carry):
    with pytest.raises(TypeError, match=r"open the file again in the child: TieredMemory.open\(path\)"):
        carry(PARTS[part](memory))


def test_a_path_in_the_place_of_a_memory_is_answered_with_how_to_open_one():
    with pytest.raises(InvalidInput, match=r"^expected a TieredMemory, got 'x.db'; write TieredMemory.open\('x.db'\)$"):
        check_memory("x.db")
    with pytest.raises(InvalidInput, match=r"expected a TieredMemory, got 3; write TieredMemory.open\('agent.db'\)"):
        check_memory(3)
    with pytest.raises(InvalidInput, match=r"got the class TieredMemory; write TieredMemory.open\('agent.db'\)"):
        check_memory(TieredMemory)


@pytest.mark.parametrize("scope", [3, "", ["ada"], b"ada"])
def test_a_scope_is_a_string_a_function_or_none(memory, scope):
    with pytest.raises(InvalidInput, match="scope: expected a non-empty string, a function that returns one, or None"):
        check_memory(memory, scope)
    for fine in ("ada", None, lambda: "ada"):
        assert check_memory(memory, fine) is memory


def test_the_number_of_a_user_is_pointed_at_str(memory):
    with pytest.raises(InvalidInput, match="or None, got 42; write str"):
        check_memory(memory, 42)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"pinned": 1}, "pinned: expected True or False"),
        ({"role": "human"}, "role: .*write 'user'"),
        ({"at": 1_700_000_000_000}, "at: .*seconds, not milliseconds"),
    ],
)
def test_remember_refuses_what_it_would_misread(memory, wrong, said):
    with pytest.raises(InvalidInput, match=said):
        memory.remember("x", **wrong)
    assert memory.long_term.list() == []


def test_forget_points_at_the_id_of_what_it_was_given(memory):
    made = memory.remember("I take my coffee black.")
    (hit,) = memory.recall("coffee")
    for wrong, hint in ((made, "write .id"), (hit, "write .memory.id"), ([hit], "write .memory.id")):
        with pytest.raises(InvalidInput, match=hint):
            memory.forget(wrong)
    with pytest.raises(InvalidInput, match=r"query: expected a string, got Hit; write .memory.text"):
        memory.recall(hit)
    with pytest.raises(InvalidInput, match="value: expected True or False"):
        memory.pin(made.id, "yes")
    assert memory.forget(hit.memory.id) == 1
