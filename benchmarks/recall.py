"""Recall on real conversations, beside BM25 alone, dense alone and the TimeWeighted formula, in one run.

    python -m benchmarks.recall --data <folder or locomo10.json>    (or TIERED_MEMORY_DATA)
        --set locomo|beam|memsim|pairs ...   --embedder minilm|static|none|... ...   --sample 2   --cache <folder>

Every conversation becomes one in-memory store through ``TieredMemory``; every question is one
``recall`` with the clock at the time it is asked. One configuration for all: the defaults,
which were chosen while looking at these sets (they are not held out).
Intervals are 95 %, by bootstrap over conversations.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from benchmarks.cached import CachedEmbedder, default_folder
from benchmarks.datasets import SETS, Conversation, Question, folder, load, pairs
from benchmarks.metrics import any_at, bootstrap, first_seen, recall_at, within_tokens
from shared_core import TieredMemory
from shared_core.embedding import Embedder, open_embedder
from shared_core.scoring.lexical import bm25
from shared_core.testing import FakeClock
from shared_core.text import estimate_tokens, normalised, terms, windows

DEPTH = 100
"""Hits asked for, so that sessions can be ranked by their first hit."""

BUDGETS = (512, 1000, 2000)
OURS = "tiered memory"
Ranking = list[str]


def ranker(conversation: Conversation, embedder: Embedder | None) -> Callable[[Question], Ranking]:
    """Ask the conversation through the front door."""
    clock = FakeClock(max(item["at"] for item in conversation.items))
    memory = TieredMemory.open(":memory:", embedder=embedder or "none", default_scope=conversation.name, clock=clock)
    memory.remember_many(conversation.items)

    def ask(question: Question) -> Ranking:
        clock.now = question.asked_at
        return [hit.memory.id for hit in memory.recall(question.text, k=DEPTH)]

    return ask


def baselines(conversation: Conversation, embedder: Embedder | None) -> dict[str, Callable[[Question], Ranking]]:
    """The plain methods: stemmed BM25 with stop words; cosine of the best window; and the TimeWeighted formula.

    They get the speaker's name with the text, as people index chats. The last is that of LangChain's TimeWeightedVectorStoreRetriever: cosine + 0.99 ** hours passed.
    """
    ids = [item["id"] for item in conversation.items]
    at = np.array([item["at"] for item in conversation.items])
    texts = [
        f"{item['speaker']}: {item['text']}" if item.get("speaker") else item["text"] for item in conversation.items
    ]
    cut = [terms(text) for text in texts]
    lengths = np.array([len(words) for words in cut], dtype=np.float64)
    counts: dict[str, dict[int, int]] = {}
    for i, words in enumerate(cut):
        for word in words:
            counts.setdefault(word, {})[i] = counts.setdefault(word, {}).get(i, 0) + 1

    def ranked(scores: npt.NDArray[np.float64]) -> Ranking:
        return [ids[i] for i in np.argsort(-scores, kind="stable")[:DEPTH]]

    def lexical(question: Question) -> Ranking:
        found = [counts[word] for word in dict.fromkeys(terms(question.text)) if word in counts]
        lists = [(np.array(list(one)), np.array(list(one.values()), dtype=np.float64)) for one in found]
        return ranked(bm25(lists, lengths))

    if embedder is None:
        return {"BM25 alone": lexical}
    pieces = [windows(text) for text in texts]
    matrix = embedder.embed([piece for some in pieces for piece in some])
    starts = np.cumsum([0, *(len(some) for some in pieces[:-1])])

    def cosines(question: Question) -> npt.NDArray[np.float64]:
        scores = matrix @ embedder.embed([question.text], query=True)[0]
        return np.maximum.reduceat(scores, starts).astype(np.float64)

    def weighted(question: Question) -> Ranking:
        hours = np.maximum(question.asked_at - at, 0.0) / 3600.0
        return ranked(cosines(question) + 0.99**hours)

    return {
        "BM25 alone": lexical,
        "dense alone": lambda question: ranked(cosines(question)),
        "TimeWeighted": weighted,
    }


def copies_as_one(conversation: Conversation) -> Conversation:
    """The conversation with evidence named by the first memory of equal text; ``same`` maps each id to that one.

    A copy answers as well as its original, for every method: recall shows one of them, the plain methods both.
    """
    first: dict[str, str] = {}
    same = {item["id"]: first.setdefault(normalised(item["text"]), item["id"]) for item in conversation.items}
    questions = [
        replace(
            question,
            evidence=frozenset(same[one] for one in question.evidence),
            audited=frozenset(same[one] for one in question.audited),
        )
        for question in conversation.questions
    ]
    return replace(conversation, questions=questions, same=same)


def measure(name: str, conversations: Sequence[Conversation], embedder: Embedder | None, title: str) -> None:
    """Ask every question with every method and print the tables of one set."""
    conversations = [copies_as_one(conversation) for conversation in conversations]
    rankings: dict[str, list[Ranking]] = {}
    asked: list[tuple[Conversation, Question]] = []
    for conversation in tqdm(conversations, desc=f"{name}, {title}", unit="store", leave=False):
        methods = baselines(conversation, embedder) | {OURS: ranker(conversation, embedder)}
        asked += [(conversation, question) for question in conversation.questions]
        for method, rank in methods.items():
            rankings.setdefault(method, []).extend(
                first_seen([conversation.same[one] for one in rank(question)]) for question in conversation.questions
            )
    counted = [i for i, (_, question) in enumerate(asked) if question.counted]
    memories = sum(len(conversation.items) for conversation in conversations)
    print(
        f"\n{name}, {title}: {len(conversations)} stores, {memories} memories, {len(counted)} questions, the whole set"
    )
    _table("memories", asked, counted, rankings, lambda _, question: question.evidence)
    if any(question.audited != question.evidence for _, question in asked):
        _table("memories, labels as audited", asked, counted, rankings, lambda _, question: question.audited)
    if name == "locomo":
        apart = [i for i in range(len(asked)) if i not in set(counted)]
        _table("adversarial questions, apart", asked, apart, rankings, lambda _, question: question.evidence)
        _sessions(asked, rankings)
    _budgets(asked, counted, rankings)
    _categories(asked, rankings[OURS])


Asked = Sequence[tuple[Conversation, Question]]


def _table(
    title: str,
    asked: Asked,
    which: Sequence[int],
    rankings: dict[str, list[Ranking]],
    wanted: Callable[[Conversation, Question], frozenset[str]],
) -> None:
    print(f"  {title} (n = {len(which)})")
    print(
        f"    {'':16s}{'R@5':>7s}{'R@10':>7s}  {'95 % interval':15s}{'R@20':>7s}{'any@5':>8s}{'any@10':>8s}{'any@20':>8s}"
    )
    groups = [asked[i][0].name for i in which]
    for method, ranked in rankings.items():
        pairs_ = [(ranked[i], wanted(*asked[i])) for i in which]
        r5, r10, r20 = ([recall_at(found, want, k) for found, want in pairs_] for k in (5, 10, 20))
        a5, a10, a20 = (np.mean([any_at(found, want, k) for found, want in pairs_]) for k in (5, 10, 20))
        low, high = bootstrap(r10, groups)
        print(
            f"    {method:16s}{np.mean(r5):7.3f}{np.mean(r10):7.3f}  {f'[{low:.3f}, {high:.3f}]':15s}{np.mean(r20):7.3f}"
            f"{a5:8.3f}{a10:8.3f}{a20:8.3f}"
        )


def _sessions(asked: Asked, rankings: dict[str, list[Ranking]]) -> None:
    print(f"  sessions, by their first hit (n = {len(asked)}, every question with evidence)")
    groups = [conversation.name for conversation, _ in asked]
    session = {id(c): {item["id"]: item["session"] for item in c.items} for c in {id(c): c for c, _ in asked}.values()}
    for method, ranked in rankings.items():
        r5, r10 = [], []
        for (conversation, question), found in zip(asked, ranked, strict=True):
            of = session[id(conversation)]
            order, want = first_seen([of[one] for one in found]), {of[one] for one in question.evidence}
            r5.append(recall_at(order, want, 5))
            r10.append(recall_at(order, want, 10))
        low, high = bootstrap(r10, groups)
        print(f"    {method:16s}{np.mean(r5):7.3f}{np.mean(r10):7.3f}  [{low:.3f}, {high:.3f}]")


def _budgets(asked: Asked, which: Sequence[int], rankings: dict[str, list[Ranking]]) -> None:
    print(f"  recall within a budget of tokens: {', '.join(map(str, BUDGETS))}")
    texts = {id(c): {item["id"]: item["text"] for item in c.items} for c in {id(c): c for c, _ in asked}.values()}
    for method, ranked in rankings.items():
        shares = []
        for budget in BUDGETS:
            found = (within_tokens(ranked[i], texts[id(asked[i][0])], budget, estimate_tokens) for i in which)
            shares.append(
                np.mean([recall_at(kept, asked[i][1].evidence, DEPTH) for i, kept in zip(which, found, strict=True)])
            )
        print(f"    {method:16s}" + "".join(f"{share:7.3f}" for share in shares))


def _categories(asked: Asked, ranked: list[Ranking]) -> None:
    by: dict[str, list[tuple[float, float]]] = {}
    for (_, question), found in zip(asked, ranked, strict=True):
        pair = recall_at(found, question.evidence, 10), any_at(found, question.evidence, 10)
        by.setdefault(question.category, []).append(pair)
    print(f"  {OURS} by category: R@10 / any@10 (n)")
    for category, found_ in sorted(by.items()):
        recall, any_ = np.mean(found_, axis=0)
        print(f"    {category:28s}{recall:6.3f} /{any_:6.3f} ({len(found_)})")


def paraphrases(data: Path, embedder: Embedder, title: str, sample: int | None = None) -> None:
    """How often a sentence finds its paraphrase first among all sentences of its set, by cosine alone."""
    for name, whole in pairs(data).items():
        found = whole[:sample]
        sentences = list(dict.fromkeys(sentence for pair in found for sentence in pair))
        place = {sentence: i for i, sentence in enumerate(sentences)}
        matrix = embedder.embed(sentences)
        hits = []
        for one, other in found:
            if one != other:
                scores = matrix @ embedder.embed([one], query=True)[0]
                scores[place[one]] = -np.inf
                hits.append(float(np.argmax(scores) == place[other]))
        low, high = bootstrap(hits, range(len(hits)))
        print(
            f"pairs, {title}: {name:10s} hit@1 {np.mean(hits):.3f} [{low:.3f}, {high:.3f}] (n = {len(hits)}, {len(sentences)} sentences)"
        )


def main(argv: Sequence[str] | None = None) -> None:
    """Read the arguments and print a table for each set and embedder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="data folder, or a locomo10.json; default: $TIERED_MEMORY_DATA")
    parser.add_argument("--set", nargs="+", choices=[*SETS, "pairs"], default=[*SETS, "pairs"], dest="sets")
    parser.add_argument("--embedder", nargs="+", default=["minilm", "static"], dest="embedders", metavar="NAME")
    parser.add_argument("--sample", type=int, metavar="N", help="only the first N stores (pairs) of each set")
    parser.add_argument("--cache", type=Path, default=default_folder(), help="where vectors are kept")
    args = parser.parse_args(argv)
    data = folder(args.data)
    for title in args.embedders:
        inner: Any = open_embedder(title)
        embedder = None if inner is None else CachedEmbedder(inner, args.cache)
        for name in args.sets:
            if name == "pairs":
                if embedder is not None and data.is_dir():
                    paraphrases(data, embedder, title, args.sample)
            elif conversations := load(name, data)[: args.sample]:
                measure(name, conversations, embedder, title)
            if embedder is not None:
                embedder.save()


if __name__ == "__main__":
    main()
