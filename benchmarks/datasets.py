"""What lies in the data folder, and reading the conversations and question pairs that recall is measured on.

    <folder>/locomo/locomo10.json, evidence_normalised.json    LoCoMo (snap-research/LoCoMo)
    <folder>/beam/<n>/chat.json, probing_questions.json        BEAM (mohammadtavakoli78/BEAM)
    <folder>/memsim_zh/*.json                                  MemSim, Chinese (nuster1128/MemSim)
    <folder>/pairs/*                                           STS-B en and zh, GPTCache paraphrases
    <folder>/tool_calls/taubench_airline_trial0.json.gz        tau-bench (sierra-research/tau-bench), gzipped
    <folder>/tool_calls/miniswe_toolcalls.jsonl.gz             mini-swe-agent runs (gruckion/mini-swe-agent), a call a line
    <folder>/cache_traces/lirs_*.trace.gz, cache2k_web07.*     key traces (ben-manes/caffeine)

Every benchmark takes the folder as ``--data`` or from ``TIERED_MEMORY_DATA``, and uses what it finds of its own sets.
Beside ``locomo10.json`` the other file is optional: LoCoMo's malformed evidence ids, put right. Nothing is downloaded and no text of a set is kept here. Measuring lives in the other files.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

VARIABLE = "TIERED_MEMORY_DATA"
SETS = ("locomo", "beam", "memsim")
TRAJECTORIES = 50
"""MemSim: this many trajectories share one store, since one alone has too few memories to miss."""

_MARKER = re.compile(r"\s*->->.*$")  # BEAM's generator left it behind; it tells which messages matter
_TURN = re.compile(r"D(\d+):(\d+)")


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the ids of the memories that answer it, and when it is asked (epoch seconds UTC).

    ``audited`` is the evidence as corrected by an audit of the labels. ``counted`` is False for
    questions reported apart (LoCoMo's adversarial ones).
    """

    text: str
    evidence: frozenset[str]
    category: str
    asked_at: float
    audited: frozenset[str]
    counted: bool = True


@dataclass(frozen=True, slots=True)
class Conversation:
    """What one store remembers (arguments of ``remember_many``, with ids and times) and is asked.

    ``same``: for each id the one that stands for it, where several memories have one text.
    """

    name: str
    items: list[dict[str, Any]]
    questions: list[Question] = field(default_factory=list)
    same: dict[str, str] = field(default_factory=dict)


def folder(given: str | None) -> Path:
    """The data folder (or a LoCoMo file) from ``--data`` or the environment. SystemExit with what to type if none."""
    path = given or os.environ.get(VARIABLE)
    if not path:
        raise SystemExit(
            f"No data: pass --data <folder or locomo10.json>, or set {VARIABLE} (benchmarks/datasets.py: what lies in it)"
        )
    if not Path(path).exists():
        raise SystemExit(f"No data: expected a folder or a file at {path}, and there is none")
    return Path(path)


def load(name: str, data: Path) -> list[Conversation]:
    """All conversations of a set; [] when the folder does not hold it. A file is LoCoMo."""
    if data.is_file():
        return list(_locomo(data)) if name == "locomo" else []
    path = {"locomo": data / "locomo" / "locomo10.json", "beam": data / "beam", "memsim": data / "memsim_zh"}[name]
    if not path.exists():
        return []
    return list({"locomo": _locomo, "beam": _beam, "memsim": _memsim}[name](path))


def _locomo(path: Path) -> Iterator[Conversation]:
    """Ten chats between two people. An image's caption is part of its turn; summaries would leak answers."""
    better = path.with_name("evidence_normalised.json")
    known = {(one["sample_id"], one["qa_index"]): one for one in _json(better)} if better.exists() else {}
    for sample in _json(path):
        talk = sample["conversation"]
        items: list[dict[str, Any]] = []
        for session in sorted((key for key in talk if re.fullmatch(r"session_\d+", key)), key=lambda key: int(key[8:])):
            start = datetime.strptime(talk[f"{session}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
            for i, turn in enumerate(talk[session]):
                caption = turn.get("blip_caption")
                text = turn["text"] + (f" [shares {caption}]" if caption else "")
                at = start.timestamp() + 30.0 * i
                items.append(
                    {"text": text, "speaker": turn["speaker"], "session": session, "at": at, "id": turn["dia_id"]}
                )
        ids = {item["id"] for item in items}
        asked_at = max(item["at"] for item in items) + 86_400.0
        questions = []
        for i, qa in enumerate(sample["qa"]):
            label = known.get((sample["sample_id"], i), {})
            raw = label.get("evidence") or [f"D{a}:{b}" for a, b in _TURN.findall(" ".join(qa.get("evidence", [])))]
            evidence = frozenset(raw) & ids
            if evidence:
                audited = frozenset(label.get("audit_evidence") or ()) & ids or evidence
                questions.append(
                    Question(str(qa["question"]), evidence, str(qa["category"]), asked_at, audited, qa["category"] != 5)
                )
        yield Conversation(sample["sample_id"], items, questions)


def _beam(path: Path) -> Iterator[Conversation]:
    """Long chats of a user with an assistant; a batch is a session."""
    for chat in sorted((one for one in path.iterdir() if one.is_dir()), key=lambda one: int(one.name)):
        items: list[dict[str, Any]] = []
        day = datetime(2024, 1, 1, tzinfo=UTC).timestamp()
        for batch in _json(chat / "chat.json"):
            for message in (message for turn in batch["turns"] for message in turn):
                day = _anchor(message.get("time_anchor"), day)
                items.append(
                    {
                        "text": _MARKER.sub("", message["content"]),
                        "role": message["role"],
                        "session": f"batch-{batch['batch_number']}",
                        "at": day + len(items),
                        "id": str(message["id"]),
                    }
                )
        items = [item for item in items if item["text"].strip()]
        ids = {item["id"] for item in items}
        asked_at = max(item["at"] for item in items) + 86_400.0
        questions = []
        for category, asked in _json(chat / "probing_questions.json").items():
            for one in asked:
                evidence = frozenset(map(str, _leaves(one.get("source_chat_ids")))) & ids
                if evidence:
                    questions.append(Question(one["question"], evidence, category, asked_at, evidence))
        yield Conversation(f"chat-{chat.name}", items, questions)


def _memsim(path: Path) -> Iterator[Conversation]:
    """Statements of many users in one store: the same words come back from others, so look at any@k too."""
    for file in sorted(path.glob("*.json")):
        trajectories = _json(file)
        for start in range(0, len(trajectories), TRAJECTORIES):
            items: list[dict[str, Any]] = []
            questions: list[Question] = []
            for one in trajectories[start : start + TRAJECTORIES]:
                if "[ERROR" in json.dumps(one, ensure_ascii=False):
                    continue
                name = f"user-{one['tid']}"
                items += [
                    {
                        "text": said["message"],
                        "session": name,
                        "at": _stamp(said["time"]),
                        "id": f"{name}/{said['mid']}",
                    }
                    for said in one["message_list"]
                ]
                for asked in one["question_list"]:
                    evidence = frozenset(f"{name}/{mid}" for mid in asked["target_step_id"])
                    at = _stamp(asked["time"])
                    questions.append(Question(asked["question"], evidence, file.stem, at, evidence))
            yield Conversation(f"{file.stem}-{start}", items, questions)


def pairs(data: Path) -> dict[str, list[tuple[str, str]]]:
    """Sentences of the same meaning, by set: STS-B scored 4 and above (en, zh), GPTCache's paraphrases."""
    found: dict[str, list[tuple[str, str]]] = {}
    for language in ("en", "zh"):
        file = data / "pairs" / f"stsb-{language}-dev.csv"
        if file.exists():
            with file.open(encoding="utf-8", newline="") as rows:
                kept = [(row[0], row[1]) for row in csv.reader(rows) if len(row) == 3 and float(row[2]) >= 4.0]
            found[f"STS-B {language}"] = kept
    file = data / "pairs" / "gptcache_paraphrases.json"
    if file.exists():
        found["GPTCache"] = [(one["origin"], one["similar"]) for one in _json(file)]
    return found


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _anchor(text: str | None, before: float) -> float:
    for form in ("%B-%d-%Y", "%b-%d-%Y", "%Y-%m-%d") if text else ():
        try:
            return datetime.strptime(str(text), form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    return before


def _stamp(text: str) -> float:
    """Epoch seconds of a stamp like 2024年04月01日 周一 08:30, read as UTC."""
    year, month, day, hour, minute = (int(part) for part in re.findall(r"\d+", text)[:5])
    return datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list):
        for branch in tree:
            yield from _leaves(branch)
    elif tree is not None:
        yield tree
