"""Settings are checked once, when they are built, and cannot be changed afterwards."""

import dataclasses
import math
from datetime import UTC, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from shared_core import InvalidInput, RecallWeights, Rule, Settings, TieredMemory


def test_the_defaults_are_those_of_the_rule():
    settings = Settings()
    assert (settings.long_term.alpha, settings.long_term.beta, settings.long_term.evidence_weight) == (0.4, 0.6, 0.25)
    assert (settings.long_term.time_scale, settings.mid_term.time_scale) == (5 * 365 * 86_400.0, 300.0)
    assert settings == Settings()


@pytest.mark.parametrize("kind", [Settings, Rule, RecallWeights])
def test_they_are_frozen_and_given_by_name(kind):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(kind(), dataclasses.fields(kind)[0].name, 1)
    with pytest.raises(TypeError):
        kind(1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"alpha": -0.1}, {"beta": math.nan}, {"alpha": math.inf}, {"alpha": 0, "beta": 0}, {"time_scale": 0},
        {"time_scale": -1}, {"evidence_weight": 1.1}, {"evidence_weight": True}, {"alpha": "1"},
    ],
)  # fmt: skip
def test_a_rule_that_makes_no_sense_is_refused_by_name(wrong):
    with pytest.raises(InvalidInput, match="Rule"):
        Rule(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"decay": 0}, {"decay": 1.01}, {"recall_k": -1}, {"recall_k": 2.5}, {"recall_tokens": True}, {"victims": "burn"},
        {"max_text_bytes": 0}, {"max_windows": 0}, {"index_bytes": 0}, {"index_bytes": 1e9}, {"cache_bytes": -1},
        {"cache_items": 0.5}, {"max_entry_share": 0}, {"max_entry_share": 1.5},
        {"zone": "Europe/Atlantis"}, {"zone": 2}, {"zone": None}, {"zone": {}}, {"zone": ""}, {"count_tokens": 4}, {"long_term": {"alpha": 1}},
        {"mid_term": 0.4}, {"mid_term": RecallWeights()}, {"recall": {}}, {"recall": Rule()}, {"persist_caches": 1},
        {"persist_caches": "no"}, {"wait_seconds": -1}, {"wait_seconds": math.inf}, {"wait_seconds": "long"},
    ],
)  # fmt: skip
def test_a_setting_that_makes_no_sense_is_refused_by_name(wrong):
    with pytest.raises(InvalidInput, match=f"Settings.{next(iter(wrong))}: expected"):
        Settings(**wrong)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(RecallWeights)])
def test_a_weight_is_a_finite_number_from_0_up(name):
    assert getattr(RecallWeights(**{name: 0}), name) == 0
    for wrong in (-1, math.nan, math.inf, None):
        with pytest.raises(InvalidInput, match=f"RecallWeights.{name}: expected a number"):
            RecallWeights(**{name: wrong})


def test_the_bounds_themselves_are_fine():
    Settings(decay=1.0, recall_k=0, recall_tokens=0, max_text_bytes=1, max_windows=1, index_bytes=1, max_entry_share=1)
    Rule(alpha=0, beta=1, evidence_weight=0)
    Rule(alpha=1, beta=0, evidence_weight=1)


def test_a_zone_may_be_given_by_its_name_and_is_kept_as_a_zone():
    assert Settings(zone="Europe/Vienna").zone == ZoneInfo("Europe/Vienna")
    east = timezone(timedelta(hours=8))
    assert Settings(zone=east).zone is east
    assert Settings().zone is UTC


@pytest.mark.parametrize("settings", [{}, "fast", Settings])
def test_a_memory_takes_settings_and_nothing_that_looks_like_them(tmp_path, settings):
    with pytest.raises(InvalidInput, match=r"settings: expected Settings, got .*; write Settings\("):
        TieredMemory.open(tmp_path / "memory.db", settings=settings)
    TieredMemory.open(tmp_path / "memory.db", settings=None, embedder="none").close()
