"""What a planner learns of a scope, and what it knows then, with requests as callers make them."""

import pytest

from shared_core.settings import Settings
from shared_core.short_term import Prompts
from shared_core.testing import FakeClock

MODEL, OTHER = "claude-sonnet-5", "claude-opus-5-5"
SYSTEM = "word " * 2000


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def prompts(clock):
    return Prompts(settings=Settings(), clock=clock, scope_of=lambda scope: scope or "ada")


def history(turns):
    """So many questions of 500 words, and as long answers in between."""
    said = [
        ("user", f"question {i} " * 250) if i % 2 == 0 else ("assistant", f"answer {i} " * 250)
        for i in range(2 * turns)
    ]
    return [{"role": role, "content": text} for role, text in said[:-1]]


def marks(plan):
    return [mark.by for mark in plan.breakpoints]


def hours(plan):
    """The tokens that this plan expects to write for an hour."""
    return plan.expected.written_1h


def talk(prompts, clock, session, turns, gaps=(20,), model=MODEL, window=None):
    """The last plan of a conversation with these pauses in turn; with a window, only its last messages are sent."""
    made = None
    for turn in range(1, turns + 1):
        messages = history(turn)
        sent = messages if window is None else messages[-window:]
        made = prompts.plan(model=model, system=SYSTEM, messages=sent, session=session)
        clock.advance(gaps[turn % len(gaps)])
    return made


def test_who_cuts_the_history_once_cuts_it_again(prompts, clock):
    """A window of the last five messages: its first three requests only grow, and behind them nothing is found again."""
    for number in range(4):
        talk(prompts, clock, f"w{number}", 12, window=5)
    assert marks(talk(prompts, clock, "new", 3, window=5))[-1] == "tail"
    assert marks(talk(prompts, clock, "long", 6, window=5))[-1] == "system"


def test_an_hour_is_bought_now_and_then_and_not_on_every_request(prompts, clock):
    """Every sixteenth pause is ten minutes. What one request bought for an hour is enough for the next ones."""
    talk(prompts, clock, "s", 48, gaps=(*[20] * 15, 600))
    bought = []
    for turn in range(49, 65):
        plan = prompts.plan(model=MODEL, system=SYSTEM, messages=history(turn), session="s")
        bought.append(hours(plan) > 0)
        clock.advance(20)
    assert 1 <= sum(bought) <= 8


def test_a_model_asked_for_the_first_time_knows_the_scope_s_late_returns(prompts, clock):
    """People come back after ten minutes: the first write of another model is for an hour, in this scope only."""
    talk(prompts, clock, "s", 12, gaps=(600,))
    first = prompts.plan(model=OTHER, system=SYSTEM, messages=history(1), session="t")
    assert hours(first) > 1800
    stranger = prompts.plan(model=OTHER, system=SYSTEM, messages=history(1), session="t", scope="bob")
    assert hours(stranger) == 0


def test_what_a_scope_saw_with_one_model_is_forgotten_with_it(prompts, clock):
    """After ``clear_scope`` nothing is known of the others either."""
    talk(prompts, clock, "s", 12, gaps=(600,))
    prompts.clear_scope("ada")
    assert hours(prompts.plan(model=OTHER, system=SYSTEM, messages=history(1), session="t")) == 0
