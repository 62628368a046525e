"""The simulator of the documented rules: every number worked by hand, every refusal the API's."""

import pytest

from shared_core.short_term.rules import ModelRules
from shared_core.testing import FakeClock
from shared_core.testing.prompt_cache import BadRequest, PromptCache, cost

RULES = {"m": ModelRules(min_tokens=100)}


def text(n, mark=None):
    block = {"type": "text", "text": f"{n:04d}"}
    return {**block, "cache_control": {"type": "ephemeral", **({"ttl": mark} if mark else {})}} if mark else block


def ask(*blocks, **more):
    return {"model": "m", "messages": [{"role": "user", "content": list(blocks)}], **more}


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def cache(clock):
    """Every block costs 100 tokens, so 1 block is the minimum."""
    return PromptCache(clock=clock, count_tokens=lambda _: 100, rules=RULES)


def of(usage):
    made = usage["cache_creation"]
    return (
        usage["cache_read_input_tokens"],
        made["ephemeral_1h_input_tokens"],
        made["ephemeral_5m_input_tokens"],
        usage["input_tokens"],
    )


def test_a_prefix_is_written_at_its_breakpoint_and_read_by_the_next_request(cache):
    """200 written, then 200 read, 100 written, 100 not cached."""
    assert of(cache.send(ask(text(1), text(2, "5m"), text(3)))) == (0, 0, 200, 100)
    assert of(cache.send(ask(text(1), text(2), text(3, "5m"), text(4)))) == (200, 0, 100, 100)


def test_one_byte_before_the_breakpoint_loses_the_prefix(cache):
    """An exact prefix or nothing."""
    cache.send(ask(text(1), text(2, "5m")))
    assert of(cache.send(ask(text(9), text(2, "5m")))) == (0, 0, 200, 0)


INSIDE = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_result", "tool_use_id": "t", "content": [INSIDE] * 5},
        {"type": "document", "source": {"type": "content", "content": [INSIDE] * 5}},
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "search_result", "content": [INSIDE] * 5}]},
    ],
)
def test_breakpoints_inside_a_block_count_among_the_four_at_any_depth(cache, block):
    """Five are refused, four taken, and what a tool is asked is none."""
    with pytest.raises(BadRequest, match="maximum of 4 blocks"):
        cache.send(ask(block))
    cache.send(ask({"type": "tool_result", "tool_use_id": "t", "content": [INSIDE] * 4}))
    cache.send(ask({"type": "tool_use", "id": "t", "name": "n", "input": {"content": [INSIDE] * 5}}))


def test_the_automatic_breakpoint_is_refused_where_the_cloud_knows_none(cache):
    """The same request with a breakpoint on its block is taken."""
    automatic = {**ask(text(1), cache_control={"type": "ephemeral"}), "model": "us.anthropic.claude-sonnet-5-v1:0"}
    with pytest.raises(BadRequest, match="not permitted"):
        cache.send(automatic)
    cache.send({**ask(text(1, "5m")), "model": automatic["model"]})


def test_the_order_of_keys_counts_inside_a_tool_s_input_and_nowhere_else(cache):
    """The provider knows a block's own fields, but renders an input as it came."""

    def call(input, **block):
        return {"model": "m", "messages": [{"role": "assistant", "content": [{**block, "input": input}]}]}

    marked = {"cache_control": {"type": "ephemeral"}}
    cache.send(call({"a": 1, "b": 2}, type="tool_use", id="t", name="n", **marked))
    assert of(cache.send(call({"a": 1, "b": 2}, name="n", id="t", type="tool_use", **marked)))[0] == 100
    assert of(cache.send(call({"b": 2, "a": 1}, type="tool_use", id="t", name="n", **marked)))[0] == 0


def test_a_breakpoint_sees_nineteen_positions_back_and_not_twenty(cache):
    """The breakpoint itself is the first of twenty positions."""
    cache.send(ask(text(0, "5m")))
    near = [text(i) for i in range(19)] + [text(19, "5m")]
    assert of(cache.send(ask(*near)))[0] == 100
    cache.send(ask(text(100, "5m")))
    far = [text(100)] + [text(i) for i in range(19)] + [text(19, "5m")]
    assert of(cache.send(ask(*far)))[0] == 0


def test_a_run_of_tool_results_is_one_position_only_on_the_provider_s_own_api(clock):
    """25 results in a row: one step back there, 25 steps elsewhere."""
    results = [{"type": "tool_result", "tool_use_id": str(i), "content": "x"} for i in range(25)]
    results[-1]["cache_control"] = {"type": "ephemeral"}
    for runs, read in ((True, 100), (False, 0)):
        cache = PromptCache(clock=clock, count_tokens=lambda _: 100, rules=RULES, runs_are_one_position=runs)
        cache.send(ask(text(0, "5m")))
        assert of(cache.send(ask(text(0), *results)))[0] == read


def test_below_the_minimum_nothing_is_written_and_nothing_is_said(clock):
    """A silent no-op, as at the provider."""
    cache = PromptCache(clock=clock, count_tokens=lambda _: 99, rules=RULES)
    assert of(cache.send(ask(text(1, "5m")))) == (0, 0, 0, 99)
    assert of(cache.send(ask(text(1, "5m")))) == (0, 0, 0, 99)


@pytest.mark.parametrize(("ttl", "seconds"), [("5m", 300), ("1h", 3600)])
def test_an_entry_lives_from_the_start_of_the_request_that_last_used_it(cache, clock, ttl, seconds):
    """Read at the last moment, it lives as long again; a second more and it is gone."""
    cache.send(ask(text(1, ttl)))
    clock.advance(seconds)
    assert of(cache.send(ask(text(1, ttl))))[0] == 100
    clock.advance(seconds)
    assert of(cache.send(ask(text(1, ttl))))[0] == 100
    clock.advance(seconds + 1)
    assert of(cache.send(ask(text(1, ttl))))[0] == 0


def test_an_entry_can_be_read_once_the_writing_response_has_begun(cache, clock):
    """A fan-out sent at once pays for every request."""
    cache.send(ask(text(1, "5m")), latency=2.0)
    assert of(cache.send(ask(text(1, "5m"))))[0] == 0
    clock.advance(2)
    assert of(cache.send(ask(text(1, "5m"))))[0] == 100


def test_mixed_lifetimes_are_billed_hit_first_then_the_hour_then_five_minutes(cache):
    """A = 100 read; B = 300: 200 at the hour's price; C = 400: 100 at five minutes'; 100 at the base price."""
    cache.send(ask(text(1, "1h")))
    usage = cache.send(ask(text(1, "1h"), text(2), text(3, "1h"), text(4, "5m"), text(5)))
    assert of(usage) == (100, 200, 100, 100)
    assert cost(usage, RULES["m"]) == pytest.approx(0.1 * 100 + 2 * 200 + 1.25 * 100 + 100)


def test_another_model_has_another_cache(cache):
    """Prefixes are never shared between models."""
    cache.send(ask(text(1, "5m")))
    assert of(cache.send({**ask(text(1, "5m")), "model": "claude-sonnet-5"}))[0] == 0


@pytest.mark.parametrize(
    ("setting", "read"),
    [
        ({"tool_choice": {"type": "any"}}, 200),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, 200),
        ({"output_config": {"effort": "low"}}, 200),
        ({"speed": "fast"}, 100),
        ({"max_tokens": 7}, 300),
    ],
)
def test_a_setting_invalidates_its_level_and_what_follows(cache, setting, read):
    """Tools, system and messages of 100 tokens each, a breakpoint on each."""
    request = ask(text(1, "5m"), tools=[{"name": "t", "cache_control": {"type": "ephemeral"}}], system=[text(2, "5m")])
    cache.send(request)
    assert of(cache.send({**request, **setting}))[0] == read


def test_a_picture_anywhere_invalidates_the_messages(cache):
    """Adding one later loses what stood before it in the messages, not the system."""
    request = ask(text(1, "5m"), system=[text(2, "5m")])
    cache.send(request)
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
    assert of(cache.send(ask(text(1, "5m"), picture, system=[text(2, "5m")])))[0] == 100


THINKING = {"type": "thinking", "thinking": "hm", "signature": "s", "cache_control": {"type": "ephemeral"}}
BY_CODE = {"type": "tool_use", "id": "c", "name": "n", "input": {}, "caller": {"type": "code_execution_20250825"}}


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (ask(*[text(i, "5m") for i in range(5)]), "maximum of 4 blocks"),
        (ask(text(1, "5m"), text(2, "1h")), "ttl='1h' cache_control block must not come after"),
        (ask(text(1, "1h"), system=[text(0, "5m")]), "ttl='1h' cache_control block must not come after"),
        (ask(THINKING), "not allowed on this thinking block"),
        (ask({"type": "text", "text": "", "cache_control": {"type": "ephemeral"}}), "not allowed on this text block"),
        (ask({**BY_CODE, "cache_control": {"type": "ephemeral"}}), "not allowed on this tool_use block"),
        (
            ask(BY_CODE, {"type": "tool_result", "tool_use_id": "c", "cache_control": {"type": "ephemeral"}}),
            "not allowed on this tool_result block",
        ),
        (ask(*[text(i, "5m") for i in range(4)], text(9), cache_control={"type": "ephemeral"}), "no slot is left"),
        (ask(text(1, "1h"), cache_control={"type": "ephemeral"}), "another ttl"),
        (ask(text(1), cache_control={"type": "ephemeral", "ttl": "2h"}), "expected '5m' or '1h'"),
        (
            ask(text(1), tools=[{"name": "t", "defer_loading": True, "cache_control": {"type": "ephemeral"}}]),
            "defer_loading",
        ),
    ],
)
def test_what_the_api_refuses_is_refused(cache, request_, words):
    """Each of the documented 400s."""
    with pytest.raises(BadRequest, match=words):
        cache.send(request_)


def test_an_automatic_breakpoint_marks_the_last_block_that_can_take_one(cache):
    """It passes over thinking, and does nothing where the same breakpoint stands already."""
    plain = {"type": "thinking", "thinking": "hm", "signature": "s"}
    assert of(cache.send(ask(text(1), plain, cache_control={"type": "ephemeral"}))) == (0, 0, 100, 100)
    assert of(cache.send(ask(text(1, "5m"), cache_control={"type": "ephemeral"}))) == (100, 0, 0, 0)
