"""Token estimates of blocks: many at once are the same numbers as one by one, and a counter of the user's is spared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.errors import InvalidInput
from shared_core.settings import Settings
from shared_core.short_term import Prompts
from shared_core.short_term.blocks import Reader
from shared_core.short_term.estimates import (
    DOCUMENT_TOKENS,
    IMAGE_TOKENS,
    block_tokens,
    remembered,
    sampled_tokens,
    tokens_of_many,
)
from shared_core.testing import FakeClock
from shared_core.text import estimate_tokens

LETTERS = "abcXYZ 0123\n\t_.,-\x1c\x85é߿ࠀ中 　、😀\ud800"
"""Each kind of character and both sides of each border: Latin, digits, white space, two, three and four bytes, half a pair."""
texts = st.text(st.sampled_from(LETTERS), max_size=40) | st.builds(
    lambda part, times: part * times, st.text(st.sampled_from(LETTERS), min_size=1, max_size=9), st.integers(30, 700)
)
parts = st.builds(lambda text: {"type": "text", "text": text}, texts)
blocks = st.one_of(
    parts,
    st.builds(lambda text: {"type": "tool_use", "id": "t", "name": "look", "input": {"q": text}}, texts),
    st.builds(lambda content: {"type": "tool_result", "tool_use_id": "t", "content": content}, texts | st.lists(parts)),
    st.just({"type": "image", "source": {"type": "url", "url": "u"}}),
    st.builds(lambda text: {"type": "text", "text": text, "defer_loading": True}, texts),
)


@given(st.lists(blocks, max_size=60))
def test_many_blocks_at_once_are_the_same_numbers_as_one_by_one(given_blocks):
    """Runs of characters over arrays against replaced bytes, across the stretches that are looked at together."""
    assert tokens_of_many(given_blocks) == [block_tokens(block, sampled_tokens) for block in given_blocks]


def test_every_character_of_the_basic_plane_is_the_same_number():
    """One text per character, the surrogates among them."""
    alone = [chr(code) for code in range(0x10000)]
    assert tokens_of_many([{"type": "text", "text": one} for one in alone]) == [estimate_tokens(one) for one in alone]


def test_a_long_text_is_taken_for_its_samples():
    """3 000 letters without a space are 600 tokens: 3 * 160 of them, 96 tokens, times 3 000 / 480."""
    assert sampled_tokens("x" * 3000) == 600
    assert sampled_tokens("x" * 200) == 40


def test_a_counter_of_the_users_is_asked_once_per_text():
    asked = []
    count = remembered(lambda text: asked.append(text) or len(text))
    assert [count("one"), count("three"), count("one")] == [3, 5, 3]
    assert asked == ["one", "three"]


@pytest.mark.parametrize("broken", [lambda _: 1 / 0, lambda _: -5, lambda _: None, lambda _: float("inf")])
def test_where_a_counter_fails_the_tokens_of_a_block_are_estimated_and_no_plan_fails(broken):
    assert remembered(broken)("some words of it") == sampled_tokens("some words of it")
    request = {"model": "claude-sonnet-5", "system": "word " * 5_000, "messages": [{"role": "user", "content": "hi"}]}
    plans = []
    for count in (broken, None):
        prompts = Prompts(settings=Settings(count_tokens=count), clock=FakeClock(), scope_of=lambda _: "ada")
        plans.append(prompts.plan(**request))
    assert plans[0].breakpoints == plans[1].breakpoints != ()


def test_a_message_that_is_refused_leaves_the_conversation_as_it_was():
    """What came before it in the same request is not taken over either; the next request finds what the last one wrote."""
    prompts = Prompts(settings=Settings(), clock=FakeClock(), scope_of=lambda _: "ada")
    talk = [{"role": "user", "content": "word " * 2000}, {"role": "assistant", "content": "good " * 2000}]
    first = prompts.plan(model="claude-sonnet-5", messages=talk, session="s")
    with pytest.raises(InvalidInput, match="expected content blocks as dicts"):
        prompts.plan(model="claude-sonnet-5", messages=[*talk, {"role": "user", "content": [7]}], session="s")
    again = prompts.plan(model="claude-sonnet-5", messages=[*talk, {"role": "user", "content": "more"}], session="s")
    assert (first.expected.total, again.expected.read) == (4000, 4000)
    assert len(again.sendable["messages"]) == 3


BYTES = "QUJD" * 250_000
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": BYTES}}
FILE = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": BYTES}}


@pytest.mark.parametrize(
    ("block", "tokens"),
    [
        (PICTURE, IMAGE_TOKENS),
        (FILE, DOCUMENT_TOKENS),
        ({"type": "tool_result", "tool_use_id": "t", "content": [PICTURE, FILE]}, 8 + IMAGE_TOKENS + DOCUMENT_TOKENS),
        ({"type": "document", "source": {"type": "content", "content": [PICTURE]}}, 8 + IMAGE_TOKENS),
        (
            {
                "type": "web_fetch_tool_result",
                "tool_use_id": "t",
                "content": {"type": "web_fetch_result", "content": FILE},
            },
            8 + DOCUMENT_TOKENS,
        ),
    ],
)
def test_what_is_binary_is_not_read_as_text_wherever_it_is(block, tokens):
    """A megabyte of base64 is one picture or one file: as text it would be three hundred thousand tokens."""
    assert Reader().tokens([block]) == [tokens]
    assert Reader().tokens([block] * 30) == [tokens] * 30
