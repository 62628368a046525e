"""The ledger: usage as each provider counts it, turned into one count, and money worked by hand."""

from types import SimpleNamespace

import pytest

from shared_core.errors import InvalidInput
from shared_core.settings import Settings
from shared_core.short_term import ModelRules, Prompts, Tokens, tokens_of
from shared_core.short_term.rules import RULES
from shared_core.testing import FakeClock

ANTHROPIC = {
    "input_tokens": 50,
    "cache_creation_input_tokens": 300,
    "cache_read_input_tokens": 1000,
    "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200},
    "output_tokens": 9,
}


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (ANTHROPIC, Tokens(read=1000, written_5m=100, written_1h=200, uncached=50)),
        ({"input_tokens": 7, "cache_creation_input_tokens": None, "cache_read_input_tokens": None}, Tokens(uncached=7)),
        ({"input_tokens": 7, "cache_creation_input_tokens": 5}, Tokens(written_5m=5, uncached=7)),
        (
            {"prompt_tokens": 1350, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 1000}},
            Tokens(read=1000, uncached=350),
        ),
        (
            {"input_tokens": 1350, "input_tokens_details": {"cached_tokens": 1000, "cache_write_tokens": 300}},
            Tokens(read=1000, written_5m=300, uncached=50),
        ),
        ({"prompt_tokens": 12}, Tokens(uncached=12)),
        ({"prompt_token_count": 1350, "cached_content_token_count": 1000}, Tokens(read=1000, uncached=350)),
        (
            {
                "inputTokens": 50,
                "cacheReadInputTokens": 1000,
                "cacheWriteInputTokens": 300,
                "cacheDetails": [{"ttl": "1h", "inputTokens": 200}, {"ttl": "5m", "inputTokens": 100}],
            },
            Tokens(read=1000, written_5m=100, written_1h=200, uncached=50),
        ),
    ],
    ids=["anthropic", "nulls", "no split", "openai chat", "openai responses", "openai plain", "gemini", "bedrock"],
)
def test_what_each_provider_counts_becomes_one_count(usage, tokens):
    """Anthropic and Bedrock count apart from the cache, OpenAI and Gemini include it; the total is the prompt either way."""
    assert tokens_of(usage) == tokens


def test_the_sdk_s_objects_are_read_as_well_as_dicts():
    """Attributes instead of keys, nested ones too."""
    made = SimpleNamespace(ephemeral_5m_input_tokens=100, ephemeral_1h_input_tokens=200)
    usage = SimpleNamespace(**{**ANTHROPIC, "cache_creation": made})
    assert tokens_of(usage) == tokens_of(ANTHROPIC)


@pytest.mark.parametrize("usage", [{}, {"total_tokens": 5}, None, {"input_tokens": -1}, {"input_tokens": "5"}])
def test_a_usage_nobody_sends_is_refused(usage):
    """Nothing is guessed about money."""
    with pytest.raises(InvalidInput, match="usage: expected"):
        tokens_of(usage)


def test_the_cost_of_a_prompt_is_the_sum_of_its_parts():
    """0.1 * 1000 + 1.25 * 100 + 2 * 200 + 50 = 675 instead of 1 350."""
    assert tokens_of(ANTHROPIC).cost(RULES["claude-sonnet-5"]) == pytest.approx(675)


@pytest.fixture
def prompts():
    return Prompts(settings=Settings(), clock=FakeClock(), scope_of=lambda _: "ada")


def planned(prompts, model="claude-sonnet-5", text="word " * 2000):
    return prompts.plan(model=model, system=text, messages=[{"role": "user", "content": "Hi"}], session="s")


def test_stats_hold_what_was_read_written_saved_and_expected(prompts):
    """Two requests of 1 350 tokens at $2: 675 + 1 350 * 1.25 = 2 362.5 of 2 700 base tokens, 337.5 saved, $0.000675."""
    first = planned(prompts)
    prompts.record({"input_tokens": 0, "cache_creation_input_tokens": 1350}, plan=first)
    second = planned(prompts)
    prompts.record(ANTHROPIC, plan=second)
    stats = prompts.stats()
    assert (stats["requests"], stats["hits"], stats["expected_hits"], stats["missed"]) == (2, 1, 1, 0)
    assert (stats["read_tokens"], stats["written_5m_tokens"], stats["written_1h_tokens"]) == (1000, 1450, 200)
    assert stats["uncached_tokens"] == 50
    assert stats["without_caching"] == 2700
    assert stats["cost"] == pytest.approx(2362.5)
    assert stats["saved"] == pytest.approx(337.5)
    assert stats["saved_share"] == pytest.approx(0.125)
    assert stats["usd"] == pytest.approx(2362.5 * 2 / 1e6)
    assert stats["saved_usd"] == pytest.approx(0.000675)
    assert stats["break_even"]["claude-sonnet-5"]["5m"]["uses"] == pytest.approx(1.278, abs=0.001)


def test_a_hit_that_was_expected_and_did_not_come_is_counted(prompts):
    """The plan expected to read; the provider wrote all anew."""
    planned(prompts)
    prompts.record({"input_tokens": 0, "cache_creation_input_tokens": 2000}, plan=planned(prompts))
    assert prompts.stats()["missed"] == 1


def test_a_model_without_a_price_has_no_dollars(prompts):
    """Tokens are counted, money is unknown rather than wrong."""
    prompts.record({"input_tokens": 5}, plan=planned(prompts, "claude-unheard-of"))
    assert prompts.stats()["usd"] is None
    assert prompts.stats()["cost"] == 5


def test_a_long_prompt_has_its_own_price():
    """Up to 100 000 tokens $0.10, above $0.50 a million, for the whole prompt."""
    rules = RULES["claude-haiku-5-5"]
    assert rules.usd(100_000, prompt_tokens=100_000) == pytest.approx(0.01)
    assert rules.usd(100_001, prompt_tokens=100_001) == pytest.approx(0.0500005)
    assert ModelRules().usd(1, prompt_tokens=1) is None


def test_recorded_usage_corrects_the_estimate_of_tokens(prompts):
    """The provider counts twice what we do: the next plan expects twice as much."""
    first = planned(prompts)
    prompts.record({"input_tokens": 2 * first.expected.total}, plan=first)
    assert planned(prompts).expected.total == pytest.approx(2 * first.expected.total, rel=0.01)


def test_an_empty_ledger_divides_by_nothing_and_draws_itself(prompts):
    """Rates are 0 before the first request."""
    stats = prompts.stats()
    assert (stats["hit_rate"], stats["saved_share"], stats["usd"]) == (0.0, 0.0, None)
    assert "hit rate" in prompts.ledger._repr_html_()
