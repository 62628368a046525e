"""What an embedder is, and the checks every one of them shares.

Here: the protocol, the check on what a model answered, texts made fit for tokenizers, things made
once for all threads, and whether an optional package is there. Never here: a model.
"""

from __future__ import annotations

import hashlib
import importlib.util
import threading
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from shared_core.errors import EmbedderError, InvalidInput, MissingExtra

Vectors: TypeAlias = npt.NDArray[np.float32]
T = TypeVar("T")

_QUIET_TEXTS = 500
"""Up to this many texts are embedded without a progress bar."""


class Embedder(Protocol):
    """Turns texts into vectors whose dot product is their cosine.

    An embedder may also name the ``scripts`` its model was trained on (a frozenset such as ``{"LATIN"}``, see
    ``reads``); one that names none is trusted with all.
    """

    @property
    def fingerprint(self) -> str:
        """Which model, which weights, which dimension; the same on every machine.

        Vectors of two fingerprints are never compared.
        """

    @property
    def dimension(self) -> int:
        """The length of a vector."""

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Return float32 [len(texts), dimension]: rows of length 1, or zeros for a text without known words.

        ``query`` says that the texts are questions, for models that treat questions and passages
        differently. Raises EmbedderError, InvalidInput.
        """


def known_dimension(embedder: Embedder) -> int | None:
    """The length of the embedder's vectors, or None where only asking its model would tell."""
    known: int | None = getattr(embedder, "known_dimension", -1)
    return embedder.dimension if known == -1 else known


def reads(embedder: Embedder, text: str) -> bool:
    """Whether at least half of the text's letters are of scripts that the embedder's model knows.

    A script is called by the first word of its letters' Unicode names: LATIN, CYRILLIC, CJK, HANGUL. To a model
    of English, Chinese is a row of unknown tokens, and what it finds alike there is noise.
    """
    known = getattr(embedder, "scripts", None)
    return known is None or mostly_in(known, text)


def mostly_in(scripts: frozenset[str], text: str) -> bool:
    """Whether at least half of the text's letters are of these scripts; true of a text without letters."""
    letters = [unicodedata.name(ch, "?").split()[0] for ch in text if ch.isalpha()]
    return 2 * sum(script in scripts for script in letters) >= len(letters)


def checked(raw: Any, count: int, *, dimension: int | None, source: str) -> Vectors:
    """Return what an embedder answered for ``count`` texts as unit rows, float32 [count, dimension].

    ``raw`` is anything numpy reads as an array of numbers. ``dimension`` None accepts any. Zero rows
    stay zero. Raises EmbedderError naming what was expected and what came.
    """
    expected = f"{source}: expected {count} finite vectors of {dimension or 'one'} length"
    try:
        rows = np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise EmbedderError(f"{expected}, got {type(raw).__name__} that is no array of numbers ({error})") from error
    if count == 0 and rows.size == 0:
        return np.zeros((0, dimension or 0), dtype=np.float32)
    if rows.ndim != 2 or rows.shape[0] != count or rows.shape[1] != (dimension or rows.shape[1]) or rows.shape[1] == 0:
        raise EmbedderError(f"{expected}, got an array of shape {rows.shape}; embed() returns one row per text")
    if not np.isfinite(rows).all():
        bad = int(np.argmin(np.isfinite(rows).all(axis=1)))
        raise EmbedderError(f"{expected}, got NaN or infinity in row {bad}; return zeros for a text without a vector")
    # Divided by the largest value first: squares of very large or very small numbers would not fit.
    peak = np.abs(rows).max(axis=1, keepdims=True)
    rows = rows / np.where(peak > 0, peak, 1.0)
    length = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    return (rows / np.where(length > 0, length, 1.0)).astype(np.float32)


def readable(texts: Sequence[str]) -> list[str]:
    """Return the texts as every tokenizer and HTTP client can take them; only for embedding.

    Surrogate pairs are joined, lone surrogates become U+FFFD (they have no UTF-8 form), and NUL becomes
    a space (it would end the text for a C engine). Raises InvalidInput for anything but strings.
    """
    if isinstance(texts, str):
        raise InvalidInput("texts: expected a list of strings, got one string; write embed([text])")
    return [_readable(text) for text in texts]


def _readable(text: str) -> str:
    if not isinstance(text, str):
        raise InvalidInput(f"texts: expected a list of strings, got {type(text).__name__} in it; convert it with str()")
    text = text.replace("\0", " ")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class Once(Generic[T]):
    """Makes a value at the first call and returns that one ever after, for all threads.

    A failed attempt is not remembered: the next call tries again.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: list[T] = []
        self._lock = threading.Lock()

    def __call__(self) -> T:
        """Return the value; raises what making it raises."""
        if not self._made:
            with self._lock:
                if not self._made:
                    self._made.append(self._make())
        return self._made[0]


def check_sha256(path: Path, expected: str) -> None:
    """Raise EmbedderError unless the file has this SHA-256: other weights would give other vectors."""
    try:
        with path.open("rb") as file:
            came = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EmbedderError(f"{path.name}: expected the file at {path}, got {error}; reinstall its package") from error
    if came != expected:
        raise EmbedderError(f"{path.name}: expected sha256 {expected}, got {came}; reinstall its package")


def installed(*modules: str) -> bool:
    """Whether all these top-level packages can be found, without importing any."""
    try:
        return all(importlib.util.find_spec(name) is not None for name in modules)
    except ImportError:
        return False


def require(what: str, extra: str, *modules: str) -> None:
    """Raise MissingExtra with the pip command unless all these packages are installed."""
    if not installed(*modules):
        raise MissingExtra.named(what, extra)


def package_file(module: str, name: str) -> Path:
    """Where a file of an installed package lies, without importing the package."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise EmbedderError(f"{name}: expected it in the package {module}, got no such package; reinstall it")
    return Path(next(iter(spec.submodule_search_locations))) / name


def progress(count: int) -> tqdm[Any]:
    """A bar over ``count`` texts on stderr: for long jobs on a terminal, silent otherwise."""
    return tqdm(total=count, desc="embedding", unit="text", disable=None if count > _QUIET_TEXTS else True)
