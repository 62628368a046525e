"""Survival: what became of earlier prompts, worked by hand."""

import pytest

from shared_core.short_term.survival import BORROWED, FADE, Odds, Uses

ROLE = ("head", 1)


def learn(gaps, kept=None, role=ROLE, depth=1):
    """The odds after uses of one key with these gaps in seconds."""
    odds, uses, now = Odds(), Uses(), 0.0
    uses.open("k", now, {role: depth}, odds)
    for gap in gaps:
        now += gap
        uses.lapse(now)
        uses.settle("k", now, kept=kept)
        uses.open("k", now, {role: depth}, odds)
    return odds


def test_before_anything_is_seen_a_prefix_survives_with_a_half():
    """Beta(1, 1)."""
    assert Odds().of(ROLE)[0] == 0.5


def test_one_return_in_time_makes_two_thirds():
    """(1 + 1) / (1 + 2)."""
    assert learn([10]).of(ROLE)[0] == pytest.approx(2 / 3)


def test_a_return_after_five_minutes_counts_for_the_hour_only():
    """P5 = (0 + 1) / (1 + 2); the step from 5 to 10 minutes survived once."""
    p5, p60 = learn([400]).of(ROLE)
    assert p5 == pytest.approx(1 / 3)
    assert p60 > p5 + 0.2


def test_a_return_after_the_hour_counts_for_neither():
    """All five ages were reached without anyone."""
    p5, p60 = learn([4000]).of(ROLE)
    assert p5 == pytest.approx(1 / 3)
    assert p60 < 0.35


def test_a_prefix_that_changed_is_lost_at_once_for_both():
    """In time, but of its 5 blocks only 4 came back."""
    p5, p60 = learn([10], kept=4, depth=5).of(ROLE)
    assert p5 == pytest.approx(1 / 3)
    assert p60 < 0.36


def test_a_use_that_nobody_continues_counts_when_its_time_is_over():
    """Not before five minutes, and then without any further request of that key."""
    odds, uses = Odds(), Uses()
    uses.open("k", 0.0, {ROLE: 1}, odds)
    uses.lapse(300.0)
    assert odds.of(ROLE)[0] == 0.5
    uses.lapse(301.0)
    assert odds.of(ROLE)[0] == pytest.approx(1 / 3)
    uses.lapse(302.0)
    assert odds.of(ROLE)[0] == pytest.approx(1 / 3)


def test_what_was_replaced_and_comes_back_after_all_is_no_loss():
    """A tool set that alternates: counted as lost at once, and set right when it returns."""
    odds, uses = Odds(), Uses()
    uses.open("a", 0.0, {ROLE: 0}, odds)
    uses.replaced(["a"])
    assert odds.of(ROLE)[0] == pytest.approx(1 / 3)
    uses.settle("a", 20.0)
    assert odds.of(ROLE)[0] == pytest.approx(2 / 3)


def test_old_experience_fades():
    """A loss ten uses ago counts FADE to the tenth."""
    settled = sum(FADE**k for k in range(11))
    survived = sum(FADE**k for k in range(10))
    assert learn([400, *[10] * 10]).of(ROLE)[0] == pytest.approx((survived + 1) / (settled + 2))


def test_a_conversation_starts_from_its_scope_and_departs_from_it():
    """The scope's experience weighs like BORROWED uses of its own."""
    scope = Odds()
    for _ in range(500):
        scope.settle(ROLE, 0, survived=True)
    talk = Odds(scope)
    start = talk.of(ROLE)[0]
    assert start == scope.of(ROLE)[0] > 0.95
    talk.settle(ROLE, 0, survived=False)
    after = scope.of(ROLE)[0]
    assert talk.of(ROLE)[0] == pytest.approx(BORROWED * after / (BORROWED + 1))


def test_how_much_an_estimate_stands_on_is_counted_with_prior_and_loan():
    """The prior is worth 2 uses; of 500 the last hundred decide; a conversation borrows a dozen of them and adds its own."""
    scope = Odds()
    talk = Odds(scope)
    assert scope.seen(ROLE) == talk.seen(ROLE) == 2
    talk.settle(ROLE, 0, survived=True)
    assert talk.seen(ROLE) == 1 + 3
    for _ in range(500):
        scope.settle(ROLE, 0, survived=True)
    assert scope.seen(ROLE) == pytest.approx(102, abs=1)
    assert talk.seen(ROLE) == 1 + BORROWED


def test_a_clock_set_back_is_a_gap_of_nothing():
    """Ages are clamped at 0."""
    assert learn([-50]).of(ROLE)[0] == pytest.approx(2 / 3)


def test_before_anything_is_seen_nobody_is_expected_back_late():
    """Two of three systems come back in five minutes, and nobody after that."""
    p5, p60 = Odds().of(("system", 0))
    assert p5 == pytest.approx(2 / 3)
    assert p60 == pytest.approx(p5)


def test_the_first_one_who_comes_back_late_tells_nearly_all():
    """P5 = (0 + 2) / (1 + 3); of the other half, 1 / 1.5 in the first step, nobody in the three after it."""
    p5, p60 = learn([400], role=("system", 0)).of(("system", 0))
    assert p5 == pytest.approx(0.5)
    assert p60 == pytest.approx(1 - 0.5 * (0.5 / 1.5))


def family(**learned):
    """The odds of each model of a scope: of so many uses of the system these came back, then so many late, in the first step."""
    odds = {}
    for model, (uses, back, late) in learned.items():
        odds[model] = Odds(siblings=odds)
        for i in range(uses):
            odds[model].settle(("system", 0), 0, survived=i < back)
        for i in range(uses - back):
            odds[model].settle(("system", 0), 1, survived=i < late)
    return odds


def test_a_model_starts_from_what_the_scope_saw_with_the_others():
    """One use each of two models came back: (2 + 2) / (2 + 3), and nothing of its own is needed for it."""
    odds = family(old=(1, 1, 0), other=(1, 1, 0), new=(0, 0, 0))
    assert odds["new"].of(("system", 0))[0] == pytest.approx(4 / 5)
    assert odds["new"].of(("tools",))[0] == pytest.approx(3 / 4)


def test_what_others_saw_weighs_no_more_than_the_prior():
    """Its own only use was lost: three quarters of the prior's three uses come back, (0 + 3 * 3 / 4) / (1 + 3)."""
    odds = family(old=(1, 1, 0), new=(1, 0, 0))
    assert odds["new"].of(("system", 0))[0] == pytest.approx(2.25 / 4)


def test_a_late_return_to_one_model_makes_it_likely_to_the_others():
    """1 / (1 + 0.5) of those that are late, with the weight of half a use."""
    odds = family(old=(1, 0, 1), new=(0, 0, 0))
    assert odds["new"].hazards(("system", 0))[1] == pytest.approx(1 / 1.5)
    odds["new"].settle(("system", 0), 1, survived=False)
    assert odds["new"].hazards(("system", 0))[1] == pytest.approx(0.5 * 1 / 1.5 / 1.5)


def an_hour_is_cheaper(odds, role):
    """1.9 of p60 against 1.15 of p5 and the dearer write, 0.75."""
    p5, p60 = odds.of(role)
    return 1.9 * p60 - 1.15 * p5 > 0.75


def test_nobody_buys_an_hour_before_late_returns_were_seen():
    """Then a few are enough, and nights in between do not undo them."""
    system = ("system", 0)
    assert not an_hour_is_cheaper(Odds(), system)
    assert not an_hour_is_cheaper(learn([10, 10, 30_000, 30_000], role=system), system)
    assert an_hour_is_cheaper(learn([1000, 1000, 30_000, 1000, 1000, 1000], role=system), system)
