"""One scope's memories as arrays: the facts that scoring reads, with their posting lists and vectors.

Derived from the rows alone and brought up to date from the change feed, so it can never disagree
with them for longer than a recall. How words are listed is in ``postings.py``, how vectors lie in
``matrix.py``. No formula here (``scoring/``) and no SQL (``storage/``).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from shared_core.long_term.matrix import Matrix, grown
from shared_core.long_term.postings import Postings
from shared_core.long_term.query import tells_time
from shared_core.scoring.fusion import ASSISTANT, OTHER, USER
from shared_core.scoring.lexical import Posting
from shared_core.storage.base import Access, Changes, MemoryRow, Source, Succession
from shared_core.text import is_question

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Where = Ints | slice
"""Positions, or the slice of all of them, which costs no copy."""
T = TypeVar("T")

_COLUMNS: dict[str, type] = {
    "row": np.int64,
    "live": np.bool_,  # the row exists; a dropped one leaves a gap until the next reset
    "active": np.bool_,  # not archived
    "pinned": np.bool_,
    "at": np.float64,
    "created_at": np.float64,
    "last_accessed": np.float64,
    "access_count": np.int32,
    "importance": np.float32,
    "evidence": np.float32,
    "session": np.int32,  # codes; -1 for none
    "speaker": np.int32,
    "role": np.int32,  # scoring.fusion's USER, ASSISTANT, OTHER
    "question": np.bool_,  # ends by asking
    "tells_time": np.bool_,
    "length": np.float32,  # index terms
    "size": np.int32,  # bytes of text and vectors
    "windows": np.int32,  # vectors; 0 until the text is embedded
}
_ROLES = {"user": USER, "assistant": ASSISTANT}


class ScopeIndex:
    """The arrays of one scope. Positions are insertion order; every public array has shape [n].

    Not thread-safe by itself: readers and ``apply`` hold ``lock``.
    """

    def __init__(self, dimension: int) -> None:
        self.lock = threading.RLock()
        self._dimension = dimension
        self.reset()

    def take_dimension(self, dimension: int) -> None:
        """Hold vectors of this length from now on: if it is another than before, all rows are to be read anew."""
        if dimension != self._dimension:
            self._dimension = dimension
            self.reset()

    def reset(self) -> None:
        """Forget everything: the next ``apply`` must bring all rows."""
        self.version = 0
        self.n = 0
        self.count = 0  # memories that are live and not archived, and their bytes: what a budget bounds
        self.bytes = 0
        self._columns: dict[str, npt.NDArray[Any]] = {name: np.zeros(64, dtype) for name, dtype in _COLUMNS.items()}
        self.ids: list[str] = []
        self.position: dict[str, int] = {}
        self.sessions: dict[str, int] = {}
        self.speakers: dict[str, int] = {}
        self.tags: dict[str, set[int]] = {}
        self.sources: dict[int, tuple[Source, ...]] = {}
        self.written_under: dict[str, set[int]] = {}  # session -> positions with a source in it
        self.successors: dict[int, tuple[Succession, ...]] = {}
        self._successions: tuple[Ints, Ints, Floats] | None = None
        self.marks: dict[int, bytes] = {}  # positions that a recall passed over, and what its reader had before it
        self._gone = 0
        self._disordered = False
        self._postings = Postings()
        self._matrix = Matrix(self._dimension)

    def column(self, name: str) -> npt.NDArray[np.generic]:
        """The live view of one fact, shape [n]."""
        return self._columns[name][: self.n]

    def floats(self, name: str) -> Floats:
        """One fact as float64, shape [n]."""
        return self.column(name).astype(np.float64, copy=False)

    def mask(self, name: str) -> Mask:
        """One yes-or-no fact, shape [n]."""
        return self.column(name).astype(np.bool_, copy=False)

    def ints(self, name: str) -> Ints:
        """One whole-number fact, shape [n]."""
        return self.column(name).astype(np.int64, copy=False)

    def where(self, positions: Ints) -> Where:
        """These sorted positions as an index into arrays of Shape [n]: a slice when they are all."""
        return slice(None) if len(positions) == self.n else positions

    def apply(self, changes: Changes) -> None:
        """Bring the arrays to ``changes.version``."""
        if changes.reset:
            self.reset()
        fresh = []
        for row in changes.rows:
            position = self.position.get(row.memory.id)
            if position is not None and int(self._columns["row"][position]) == row.row:
                self._update(position, row)
            elif row.memory.status != "archived":
                fresh.append(row)
        if fresh:
            self._append(fresh, max(self.n + len(fresh), changes.total))
        for number in changes.dropped:
            self._drop(number)
        self.version = changes.version

    def settle(self) -> None:
        """All rows that there are were applied: words are looked up and vectors compared from now on."""
        self._postings.settle()

    @property
    def stale(self) -> bool:
        """Whether it is to be read anew: most of it is gone, or a row came back out of order."""
        return self._disordered or self._gone > max(1_000, self.n // 2)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, vectors for the most part."""
        return self._matrix.nbytes + self._postings.nbytes + sum(column.nbytes for column in self._columns.values())

    def successions(self) -> tuple[Ints, Ints, Floats]:
        """Positions of replaced memories, the row that replaced each (-1 once erased), and when; shape [m] each."""
        if self._successions is None:
            pairs = [(position, one) for position, several in self.successors.items() for one in several]
            self._successions = (
                np.array([position for position, _ in pairs], np.int64),
                np.array([-1 if one.row is None else one.row for _, one in pairs], np.int64),
                np.array([one.at for _, one in pairs], np.float64),
            )
        return self._successions

    def touch(self, seen: Iterable[Access]) -> None:
        """Take over read facts that the rows do not hold yet."""
        for access in seen:
            position = self.position.get(access.id)
            if position is not None:
                columns = self._columns
                columns["last_accessed"][position] = max(columns["last_accessed"][position], access.last_accessed)
                columns["access_count"][position] += access.count
                if access.evidence is not None:
                    columns["evidence"][position] = access.evidence

    def postings(self, terms: Sequence[str], among: Ints | None) -> list[Posting]:
        """Posting lists of these terms, in positions, or in indexes into ``among`` (sorted positions)."""
        where = None
        if among is not None:
            where = np.full(self.n, -1, np.int64)
            where[among] = np.arange(len(among))
        out: list[Posting] = []
        for term in terms:
            rows, counts = self._postings.of(term)
            if where is not None:
                kept = where[rows] >= 0
                rows, counts = where[rows[kept]], counts[kept]
            out.append((rows, counts))
        return out

    def df(self, term: str) -> int:
        """How many memories hold the term (dropped ones may still be counted until the next reset)."""
        return self._postings.df(term)

    def cosines(self, query: npt.NDArray[np.float32]) -> Floats:
        """Cosine of each memory's best window with the query, shape [n]; NaN where there is no vector."""
        return self._matrix.cosines(query, self.n)

    def _append(self, rows: Sequence[MemoryRow], room: int) -> None:
        """Take in rows that were not there, in their order; ``room`` is how many there are going to be in all."""
        start, end = self.n, self.n + len(rows)
        numbers = [row.row for row in rows]
        if numbers != sorted(numbers) or (start and numbers[0] < int(self._columns["row"][start - 1])):
            self._disordered = True
            return
        if room > len(self._columns["row"]):
            self._columns = {name: grown(column, room) for name, column in self._columns.items()}
        memories = [row.memory for row in rows]
        texts = [memory.text for memory in memories]
        words = [row.terms.split() for row in rows]
        windows = [self._matrix.windows(row.vectors) for row in rows]
        sizes = list(map(self._size, texts, windows))
        facts: dict[str, Sequence[object]] = {
            "row": numbers,
            "pinned": [memory.pinned for memory in memories],
            "at": [memory.at for memory in memories],
            "created_at": [memory.created_at for memory in memories],
            "last_accessed": [memory.last_accessed for memory in memories],
            "access_count": [memory.access_count for memory in memories],
            "importance": [memory.importance for memory in memories],
            "evidence": [row.evidence for row in rows],
            "session": [_code(self.sessions, memory.session) for memory in memories],
            "speaker": [_code(self.speakers, memory.speaker) for memory in memories],
            "role": [_ROLES.get(memory.role, OTHER) for memory in memories],
            "question": list(map(is_question, texts)),
            "tells_time": list(map(tells_time, texts, words)),
            "length": list(map(len, words)),
            "windows": windows,
            "size": sizes,
        }
        columns = self._columns
        for name, values in facts.items():
            if len(rows) == 1:  # as after each write: spared the way over an array, which costs five times as much
                columns[name][start] = values[0]
            else:
                columns[name][start:end] = values
        columns["live"][start:end] = columns["active"][start:end] = True
        self.ids += [memory.id for memory in memories]
        self.position.update(zip(self.ids[start:], range(start, end), strict=True))
        self._postings.add(start, words)
        self._add_vectors(list(zip(range(start, end), windows, [row.vectors for row in rows], strict=True)), room)
        for position, row in enumerate(rows, start):
            self._take_ties(position, row)
        self.n = end
        self.count += len(rows)
        self.bytes += sum(sizes)

    def _update(self, position: int, row: MemoryRow) -> None:
        memory, columns = row.memory, self._columns
        active = memory.status != "archived"
        before = bool(columns["active"][position])
        self._gone += before - active
        self.count += active - before
        self.bytes -= before * int(columns["size"][position])
        columns["active"][position] = active
        if not active:
            return  # nothing else of it is asked for; if it comes back, the feed brings all of it
        columns["pinned"][position] = memory.pinned
        columns["importance"][position] = memory.importance
        columns["last_accessed"][position] = memory.last_accessed
        columns["access_count"][position] = memory.access_count
        columns["evidence"][position] = row.evidence
        windows = self._matrix.windows(row.vectors)
        if windows and not columns["windows"][position]:
            self._add_vectors([(position, windows, row.vectors)])
            columns["windows"][position] = windows
        columns["size"][position] = self._size(memory.text, int(columns["windows"][position]))
        self.bytes += int(columns["size"][position])
        self._take_ties(position, row)

    def _take_ties(self, position: int, row: MemoryRow) -> None:
        """What connects a memory: tags, the conversations it was said in, what replaced it."""
        for tag in row.memory.tags:
            self.tags.setdefault(tag, set()).add(position)
        if row.sources or position in self.sources:
            _set_or_drop(self.sources, position, row.sources)
            for source in row.sources:
                self.written_under.setdefault(source.session, set()).add(position)
        if self.successors.get(position, ()) != row.successors:
            _set_or_drop(self.successors, position, row.successors)
            self._successions = None

    def _add_vectors(self, found: Sequence[tuple[int, int, bytes | None]], room: int = 0) -> None:
        """Positions, how many vectors each has, and their bytes."""
        some = [(position, count, raw) for position, count, raw in found if count and raw is not None]
        if some:
            owner = np.repeat([position for position, _, _ in some], [count for _, count, _ in some])
            self._matrix.add(b"".join(raw for _, _, raw in some), owner.astype(np.int32), room=room)

    def _size(self, text: str, windows: int) -> int:
        return len(text.encode()) + 4 * self._dimension * windows

    def _drop(self, number: int) -> None:
        rows = self._columns["row"][: self.n]
        position = int(np.searchsorted(rows, number))
        if position < self.n and rows[position] == number and self._columns["live"][position]:
            self._columns["live"][position] = False
            active = int(self._columns["active"][position])
            self._gone += active
            self.count -= active
            self.bytes -= active * int(self._columns["size"][position])
            if self.position.get(self.ids[position]) == position:
                del self.position[self.ids[position]]


def _code(codes: dict[str, int], value: str | None) -> int:
    return -1 if value is None else codes.setdefault(value, len(codes))


def _set_or_drop(facts: dict[int, tuple[T, ...]], position: int, values: tuple[T, ...]) -> None:
    if values:
        facts[position] = values
    else:
        facts.pop(position, None)
