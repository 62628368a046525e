"""Conversations as timed streams of turns with the questions asked about them. No measuring here.

The sets are read from the folder that ``--data`` or ``TIERED_MEMORY_DATA`` names; none of their text is
kept in the project. What would leak the answer is left out: BEAM's generator marker at the
end of a message, LoCoMo's summaries. A picture's caption stands with its turn.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SECONDS_A_TURN = 30.0
DAY_SECONDS = 86_400.0
_MARKER = re.compile(r"\s*->->.*$")  # on its last line
_TURN = re.compile(r"D(\d+):(\d+)")


@dataclass(frozen=True, slots=True)
class Turn:
    """One message; ``at`` in epoch seconds UTC."""

    text: str
    role: str
    speaker: str
    session: str
    at: float


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the indices of the turns that answer it, ascending."""

    text: str
    evidence: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns in order and the questions that have evidence among them."""

    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


def conversations(name: str, data: Path) -> list[Conversation]:
    """The conversations of ``"locomo"`` (categories 1 to 4) or ``"beam"`` in the folder ``data``."""
    return list({"locomo": _locomo, "beam": _beam}[name](data / name))


def take_data(parser: argparse.ArgumentParser, *, needed: bool = True) -> None:
    """Give the parser the ``--data`` argument of every benchmark on real conversations."""
    named = os.environ.get("TIERED_MEMORY_DATA")
    parser.add_argument(
        "--data",
        type=Path,
        default=named,
        required=needed and named is None,
        help="folder that holds locomo/ and beam/",
    )


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _locomo(folder: Path) -> Iterator[Conversation]:
    better = folder / "evidence_normalised.json"
    known = {(one["sample_id"], one["qa_index"]): one["evidence"] for one in _read(better)} if better.exists() else {}
    for sample in _read(folder / "locomo10.json"):
        chat, turns, place = sample["conversation"], [], {}
        for number in range(1, len(chat)):
            start = chat.get(f"session_{number}_date_time")
            for i, said in enumerate(chat.get(f"session_{number}", []) if start else []):
                at = datetime.strptime(start, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC).timestamp()
                caption = f" [shares {said['blip_caption']}]" if said.get("blip_caption") else ""
                place[said["dia_id"]] = len(turns)
                at += i * SECONDS_A_TURN
                turns.append(Turn(said["text"] + caption, "user", said["speaker"], str(number), at))
        asked = []
        for i, qa in enumerate(sample["qa"]):
            raw = [f"D{session}:{turn}" for session, turn in _TURN.findall(" ".join(qa.get("evidence", [])))]
            named = known.get((sample["sample_id"], i)) or raw
            evidence = sorted({place[turn] for turn in named if turn in place})
            if qa["category"] != 5 and evidence:
                asked.append(Question(str(qa["question"]), tuple(evidence)))
        yield Conversation(sample["sample_id"], tuple(turns), tuple(asked))


def _beam(folder: Path) -> Iterator[Conversation]:
    """A batch names the day it begins; its messages are spread evenly until the next one, the last over 30 days."""
    for number in sorted((path.name for path in folder.iterdir()), key=int):
        batches = [[said for turn in batch["turns"] for said in turn] for batch in _read(folder / number / "chat.json")]
        days = [next(said["time_anchor"] for said in batch if said.get("time_anchor")) for batch in batches]
        starts = [datetime.strptime(day, "%B-%d-%Y").replace(tzinfo=UTC).timestamp() for day in days]
        turns, place = [], {}
        for i, (batch, start, end) in enumerate(
            zip(batches, starts, [*starts[1:], starts[-1] + 30 * DAY_SECONDS], strict=True)
        ):
            for j, said in enumerate(batch):
                place[said["id"]] = len(turns)
                at = start + (end - start) * j / len(batch)
                turns.append(Turn(_MARKER.sub("", said["content"]), said["role"], said["role"], str(i), at))
        asked = []
        for group in _read(folder / number / "probing_questions.json").values():
            for probe in group:
                evidence = sorted({place[i] for i in _flat(probe.get("source_chat_ids")) if i in place})
                if evidence:
                    asked.append(Question(probe["question"], tuple(evidence)))
        yield Conversation(number, tuple(turns), tuple(asked))


def _flat(ids: Any) -> list[int]:
    if isinstance(ids, dict):
        return _flat(list(ids.values()))
    if isinstance(ids, list):
        return [found for part in ids for found in _flat(part)]
    return [] if ids is None else [ids]
