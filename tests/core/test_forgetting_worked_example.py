"""The worked example of docs/forgetting.md, recomputed by hand and by the product."""

import re
from pathlib import Path

import pytest

from shared_core import Settings

PAGE = (Path(__file__).parents[2] / "docs" / "forgetting.md").read_text("utf-8")
ROW = re.compile(r'^\| "(.+?)" \| ([\d.]+) \| (\d+) \| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$', re.MULTILINE)
DAY = 86_400.0


@pytest.fixture
def rows():
    found = [(text, *map(float, numbers)) for text, *numbers in ROW.findall(PAGE)]
    assert len(found) == 3
    return found


def test_the_numbers_of_the_page_are_those_of_the_formula(rows):
    for _, importance, days, accesses, effective, recency, score in rows:
        left = importance * 0.9995 ** (days / max(accesses, 1))
        assert left == pytest.approx(effective, abs=5e-5)
        assert 1 / (1 + days / (5 * 365)) == pytest.approx(recency, abs=5e-5)
        assert 0.4 / (1 + days / (5 * 365)) + 0.6 * left == pytest.approx(score, abs=5e-5)


def test_the_product_scores_them_so_and_a_sweep_evicts_the_weather(rows, open_memory, clock):
    assert Settings().decay == 0.9995
    memory = open_memory(embedder="none")
    now = clock.now
    for text, importance, days, accesses, *_ in sorted(rows, key=lambda row: -row[2]):
        clock.now = now - days * DAY
        memory.remember(text, id=text, importance=importance)
        for _ in range(int(accesses)):
            memory.recall(text, k=1)
    clock.now = now
    scored = {hit.memory.id: hit for hit in memory.sweep(max_memories=0, dry_run=True).victims}
    for text, *_, recency, score in rows:
        assert scored[text].score == pytest.approx(score, abs=5e-5)
        assert scored[text].parts["recency"] == pytest.approx(0.4 * recency, abs=5e-5)
    assert [hit.memory.id for hit in memory.sweep(max_memories=2).victims] == ["Nice weather today."]


def test_the_years_that_the_page_names_are_right():
    left = [0.9995**days for days in (365, 4 * 365, 16 * 365 / 4)]
    assert left == pytest.approx([0.83, 0.5, 0.5], abs=0.02)
