"""The ledger: usage as each provider counts it, turned into one count, and money worked by hand."""

import threading
from types import SimpleNamespace

import pytest

from shared_core.errors import InvalidInput
from shared_core.settings import Settings
from shared_core.short_term import ModelRules, Prompts, Tokens, tokens_of
from shared_core.short_term.plan import Breakpoint, Expected, Parts, Plan
from shared_core.short_term.rules import RULES
from shared_core.testing import FakeClock

ANTHROPIC = {
    "input_tokens": 50,
    "cache_creation_input_tokens": 300,
    "cache_read_input_tokens": 1000,
    "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200},
    "output_tokens": 9,
}


def langchain(**details):
    return {"input_tokens": 1350, "output_tokens": 9, "total_tokens": 1359, "input_token_details": details}


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
        ({"promptTokenCount": 1350, "cachedContentTokenCount": 1000}, Tokens(read=1000, uncached=350)),
        ({"total_input_tokens": 1350, "total_cached_tokens": 1000}, Tokens(read=1000, uncached=350)),
        (
            {
                "input_tokens": 50,
                "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200},
            },
            Tokens(written_5m=100, written_1h=200, uncached=50),
        ),
        (langchain(cache_read=1000, cache_creation=300), Tokens(read=1000, written_5m=300, uncached=50)),
        (
            langchain(cache_read=1000, cache_creation=0, ephemeral_5m_input_tokens=100, ephemeral_1h_input_tokens=200),
            Tokens(read=1000, written_5m=100, written_1h=200, uncached=50),
        ),
        (langchain(), Tokens(uncached=1350)),
        ({"id": "msg", "usage": ANTHROPIC}, Tokens(read=1000, written_5m=100, written_1h=200, uncached=50)),
        ({"usage_metadata": langchain(cache_read=1000)}, Tokens(read=1000, uncached=350)),
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
    ids=[
        "anthropic",
        "nulls",
        "no split",
        "openai chat",
        "openai responses",
        "openai plain",
        "gemini",
        "gemini json",
        "gemini interactions",
        "split alone",
        "langchain stream",
        "langchain",
        "langchain plain",
        "response",
        "message",
        "bedrock",
    ],
)
def test_what_each_provider_counts_becomes_one_count(usage, tokens):
    """Anthropic and Bedrock count apart from the cache, OpenAI, Gemini and LangChain include it; the total is the prompt either way."""
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


def marked(*ends, total=4000):
    """A plan of a prompt estimated at ``total`` tokens, with breakpoints after these (tokens, lifetime)."""
    rules = RULES["claude-sonnet-5"]
    marks = tuple(Breakpoint("messages", 0, i, i + 1, tokens, ttl, 0.9, "tail") for i, (tokens, ttl) in enumerate(ends))
    parts = Parts((), (), [], [], [0], 0, 0, tools_given=False)
    return Plan(
        "claude-sonnet-5", "ada", "s", marks, Expected(0, 0, 0, total, 0.0, 0.0), rules, (), parts=parts, settings={}
    )


def unsplit(read, written, uncached):
    return {
        "input_tokens": uncached,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "cache_creation": None,
    }


HOUR_THEN_MINUTES = ((2000, "1h"), (3800, "5m"))


@pytest.mark.parametrize(
    ("ends", "usage", "tokens"),
    [
        (HOUR_THEN_MINUTES, unsplit(0, 3800, 200), Tokens(0, 1800, 2000, 200)),
        (HOUR_THEN_MINUTES, unsplit(0, 7600, 400), Tokens(0, 3600, 4000, 400)),
        (HOUR_THEN_MINUTES, unsplit(1500, 2300, 200), Tokens(1500, 1800, 500, 200)),
        (HOUR_THEN_MINUTES, {**langchain(cache_creation=3800), "input_tokens": 4000}, Tokens(0, 1800, 2000, 200)),
        (HOUR_THEN_MINUTES, unsplit(3000, 800, 200), Tokens(3000, 800, 0, 200)),
        (((3800, "1h"),), unsplit(1000, 2900, 100), Tokens(1000, 0, 2900, 100)),
        (((3800, "5m"),), unsplit(0, 3800, 200), Tokens(0, 3800, 0, 200)),
        ((), unsplit(0, 300, 3700), Tokens(0, 300, 0, 3700)),
        (HOUR_THEN_MINUTES, ANTHROPIC, Tokens(1000, 100, 200, 50)),
        (
            HOUR_THEN_MINUTES,
            {"inputTokens": 200, "cacheReadInputTokens": 0, "cacheWriteInputTokens": 3800},
            Tokens(0, 1800, 2000, 200),
        ),
    ],
    ids=[
        "all",
        "twice as many",
        "read in the head",
        "langchain",
        "read",
        "hour",
        "minutes",
        "none of ours",
        "told",
        "bedrock",
    ],
)
def test_a_write_whose_lifetime_nobody_told_is_split_by_the_plan(ends, usage, tokens):
    """An hour up to 2 000 of 4 000 estimated tokens, then minutes: of a write up to 3 800, 2 000 are for an hour.

    Billed are twice the tokens: the hour ends at 4 000. Read up to 1 500: 500 are left of the hour. Read beyond it: none.
    A split that came with the usage stands.
    """
    assert tokens_of(usage, marked(*ends)) == tokens


def test_a_streamed_hour_is_booked_as_an_hour(prompts):
    """2 000 tokens for an hour and 1 800 for minutes cost 4 000 + 2 250, 200 more at the base price: 6 450."""
    prompts.record(unsplit(0, 3800, 200), plan=marked(*HOUR_THEN_MINUTES))
    stats = prompts.stats()
    assert (stats["written_1h_tokens"], stats["written_5m_tokens"]) == (2000, 1800)
    assert stats["cost"] == pytest.approx(6450)


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


def test_what_is_no_usage_or_no_plan_counts_nothing(prompts):
    """A request is not its plan; a usage of fractions or below nothing is not money."""
    plan = planned(prompts)
    for usage, given in (
        (ANTHROPIC, None),
        (ANTHROPIC, plan.request),
        ({"input_tokens": 0.5}, plan),
        ({**ANTHROPIC, "cache_read_input_tokens": -1}, plan),
    ):
        with pytest.raises(InvalidInput, match="expected"):
            prompts.record(usage, plan=given)
    assert prompts.stats()["requests"] == prompts.stats()["without_caching"] == 0


def test_many_requests_in_flight_correct_the_estimate_once_and_not_each_other(prompts):
    """Fifty plans made before the first usage came back, each billed 1.3 times its estimate: the ratio is 1.3."""
    plans = [planned(prompts) for _ in range(50)]
    for plan in plans:
        prompts.record({"input_tokens": round(1.3 * plan.expected.total)}, plan=plan)
    prompts.record({"input_tokens": round(1.3 * plan.expected.total)}, plan=plan)  # and one of them twice
    assert prompts.ledger.ratio("claude-sonnet-5") == pytest.approx(1.3, rel=0.001)


def test_older_bills_say_less_of_the_estimate_and_short_prompts_too(prompts):
    """Billed once and twice what was estimated: (0.98 * 1 + 2) / (0.98 + 1) = 1.505. Four times of a few tokens: hardly more."""
    plan = planned(prompts)
    for factor in (1, 2):
        prompts.record({"input_tokens": factor * plan.expected.total}, plan=plan)
    assert prompts.ledger.ratio("claude-sonnet-5") == pytest.approx(1.505, abs=0.001)
    short = planned(prompts, text="a few words")
    prompts.record({"input_tokens": 4 * short.parts.estimated}, plan=short)
    assert prompts.ledger.ratio("claude-sonnet-5") == pytest.approx(1.505, abs=0.02)


@pytest.mark.parametrize(("factor", "ratio"), [(50, 4.0), (0.01, 0.25)])
def test_a_bill_that_no_tokenizer_explains_corrects_the_estimate_within_bounds(prompts, factor, ratio):
    """A file of a hundred pages, or the several prompts of a server's tool loop in one usage."""
    plan = planned(prompts)
    prompts.record({"input_tokens": round(factor * plan.expected.total)}, plan=plan)
    assert prompts.ledger.ratio("claude-sonnet-5") == ratio


def test_a_usage_is_recorded_from_another_thread_and_for_another_memory_s_plan(prompts):
    """The plan carries its own rules; a ledger needs no acquaintance with it."""
    plan = planned(Prompts(settings=Settings(), clock=FakeClock(), scope_of=lambda _: "bob"))
    threads = [threading.Thread(target=prompts.record, args=(ANTHROPIC,), kwargs={"plan": plan}) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert prompts.stats()["requests"] == 8
    assert prompts.stats()["without_caching"] == 8 * 1350


def test_an_empty_ledger_divides_by_nothing_and_draws_itself(prompts):
    """Rates are 0 before the first request."""
    stats = prompts.stats()
    assert (stats["hit_rate"], stats["saved_share"], stats["usd"]) == (0.0, 0.0, None)
    assert "hit rate" in prompts.ledger._repr_html_()
