"""The page on recall says what the code does: its worked example is run, and its weights are the defaults."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from shared_core.settings import RecallWeights

PAGE = (Path(__file__).parents[2] / "docs" / "recall.md").read_text(encoding="utf-8")


def rows_under(heading: str) -> list[list[str]]:
    """The cells of the table whose first column is called ``heading``, head first."""
    table = re.search(rf"^\| {heading} \|.*\n(?:\|.*\n)+", PAGE, re.MULTILINE)
    assert table is not None
    return [
        [cell.strip(" `") for cell in line.strip("|").split("|")] for line in table[0].splitlines() if "---" not in line
    ]


def test_the_worked_example_gives_the_numbers_in_its_table(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    example = tmp_path / "recall.py"
    example.write_text(code, encoding="utf-8")
    names = runpy.run_path(str(example))
    head, *rows = rows_under("memory")
    with names["memory"]:
        assert [hit.memory.text for hit in names["hits"]] == [row[0] for row in rows]
        for hit, row in zip(names["hits"], rows, strict=True):
            assert {**hit.parts, "score": hit.score} == pytest.approx(
                {name: float(cell) for name, cell in zip(head[1:], row[1:], strict=True)}, abs=5e-4
            )


def test_the_weights_on_the_page_are_the_defaults() -> None:
    weights = RecallWeights()
    for part, _, weight in rows_under("part")[1:]:
        if part == "neighbours":
            assert weight == f"{weights.next_neighbour}, {weights.second_neighbour}"
        else:
            assert float(weight) == getattr(weights, part)
