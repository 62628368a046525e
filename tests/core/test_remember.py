"""What remember promises: everything given comes back, and nothing wrong is written."""

import math
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

from shared_core import (
    DuplicateId,
    InvalidInput,
)


def texts(found):
    return [(hit.memory if hasattr(hit, "memory") else hit).text for hit in found]


def test_what_is_remembered_is_recalled_at_once(memory, clock):
    kept = memory.remember("I take my coffee black.")
    (hit,) = memory.recall("how does she like coffee?")
    assert hit.memory == kept
    assert (kept.scope, kept.role, kept.status, kept.at, kept.created_at) == (
        "ada",
        "user",
        "active",
        clock.now,
        clock.now,
    )


def test_every_field_comes_back_as_given(memory):
    kept = memory.remember(
        "Tea at five.", role="assistant", speaker="Bob", session="s", tags=["x", "y", "x"], importance=0.25, at=12.5,
        subject="tea", pinned=True, metadata={"deep": [1, {"z": None}]}, id="mine",
    )  # fmt: skip
    assert kept == memory.get("mine")
    assert (kept.role, kept.speaker, kept.session, kept.tags, kept.importance) == (
        "assistant",
        "Bob",
        "s",
        ("x", "y"),
        0.25,
    )
    assert (kept.at, kept.subject, kept.pinned, kept.metadata) == (12.5, "tea", True, {"deep": [1, {"z": None}]})


def test_what_a_caller_passes_or_gets_is_a_copy(memory):
    given = {"n": [1]}
    kept = memory.remember("Tea.", metadata=given)
    given["n"].append(2)
    kept.metadata["n"].append(3)
    assert memory.get(kept.id).metadata == {"n": [1]}
    memory.recall("tea")[0].memory.metadata["n"].append(4)
    assert memory.recall("tea")[0].memory.metadata == {"n": [1]}


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u3000"])
def test_text_without_words_is_refused(memory, text):
    with pytest.raises(InvalidInput, match="text: expected text"):
        memory.remember(text)
    assert memory.long_term.list() == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"text": 3}, "text: expected a string, got int"),
        ({"role": ""}, "role: expected a non-empty string"),
        ({"tags": "abc"}, "tags: expected a list"),
        ({"importance": 1.5}, "importance: expected a number from 0 to 1"),
        ({"importance": math.nan}, "importance"),
        ({"importance": True}, "importance"),
        ({"at": datetime(2024, 1, 1)}, "naive"),  # noqa: DTZ001 - the fault under test
        ({"at": math.inf}, "at: expected epoch seconds"),
        ({"metadata": {"x": object()}}, "metadata: expected values that JSON can carry"),
        ({"metadata": {"x": math.nan}}, "metadata: expected values that JSON can carry"),
        ({"metadata": {1: 2}}, "metadata: expected a dict with string keys"),
        ({"scope": ""}, "scope: expected a non-empty string"),
        ({"id": ""}, "id: expected a non-empty string"),
        ({"subject": 7}, "subject: expected a non-empty string, got int"),
    ],
)
def test_a_wrong_argument_is_named_and_nothing_is_written(memory, wrong, message):
    with pytest.raises(InvalidInput, match=message):
        memory.remember(**{"text": "fine", **wrong})
    with pytest.raises(ValueError, match=message):
        memory.remember_many([{"text": "good"}, {"text": "fine", **wrong}])
    assert memory.long_term.list(status=None) == []


def test_an_unknown_key_of_an_item_is_named(memory):
    with pytest.raises(InvalidInput, match="'colour'"):
        memory.remember_many([{"text": "x", "colour": "red"}])
    with pytest.raises(InvalidInput, match="'source'"):
        memory.remember_many([{"text": "x", "source": ("s", "n")}])
    with pytest.raises(InvalidInput, match="a key 'text'"):
        memory.remember_many([{}])
    with pytest.raises(InvalidInput, match="expected a dict"):
        memory.remember_many(["x"])


def test_an_aware_datetime_and_epoch_seconds_name_the_same_moment(memory):
    moment = datetime(2024, 3, 10, 12, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert memory.remember("Holi.", at=moment).at == moment.timestamp()
    assert memory.remember("Before 1970.", at=datetime(1950, 1, 1, tzinfo=UTC)).at < 0
    assert memory.remember("The end.", at=datetime.max.replace(tzinfo=timezone(-timedelta(hours=12)))).at > 2e11


def test_numbers_of_numpy_are_numbers(memory):
    kept = memory.remember("Tea.", importance=np.float32(0.5), at=np.int64(7))
    assert (kept.importance, kept.at) == (0.5, 7.0)
    assert len(memory.recall("tea", k=np.int64(1))) == 1


def test_many_are_remembered_in_order_and_repeats_share_an_id(memory):
    kept = memory.remember_many([{"text": "b"}, {"text": "a"}, {"text": "B"}, {"text": "c", "scope": "bob"}])
    assert [item.text for item in kept] == ["b", "a", "b", "c"]
    assert kept[0].id == kept[2].id != kept[1].id
    assert (kept[2].access_count, kept[3].scope) == (1, "bob")
    assert memory.remember_many([]) == []
    assert memory.remember_many(iter([{"text": "from an iterator"}]))[0].text == "from an iterator"


def test_an_id_given_again_with_the_same_text_changes_nothing(memory, clock):
    kept = memory.remember("Tea.", id="1")
    clock.advance(10)
    assert memory.remember("Tea.", id="1", tags=["x"]) == kept
    assert memory.get("1") == kept


def test_an_id_given_again_with_another_text_is_an_error_and_writes_nothing(memory):
    memory.remember("Tea.", id="1")
    with pytest.raises(DuplicateId, match="'1' is taken"):
        memory.remember_many([{"text": "new"}, {"text": "Coffee.", "id": "1"}, {"text": "more"}])
    assert texts(memory.long_term.list()) == ["Tea."]
    assert memory.remember("Coffee.", id="1", scope="bob").text == "Coffee."


def test_importance_comes_from_the_text_unless_it_is_given(memory):
    told, polite = memory.remember_many([{"text": "I was born in Lisbon on 3 May 1990."}, {"text": "Thanks, great!"}])
    assert 0 <= polite.importance < told.importance <= 1
    assert memory.remember("Thanks!", importance=1).importance == 1.0
