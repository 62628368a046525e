"""Every error this package raises on purpose, and nothing else.

    TieredMemoryError
    |-- InvalidInput          (also ValueError)   an argument is not what the call takes
    |   |-- ScopeRequired                         no scope was given and there is no default
    |   `-- DuplicateId                           the id is taken by a memory with another text
    |-- NotFound              (also LookupError)  the named memory or node does not exist in the scope
    |-- MissingExtra          (also ImportError)  an optional package is not installed
    |-- EmbedderError                             the embedder gave something that is not (n, d) float32
    |   `-- EmbedderMismatch                      the file holds vectors of another model
    `-- StorageError                              the file cannot be read or written
        |-- SchemaTooNew                          the file was written by a newer release
        `-- Closed                                the memory was closed

Each message says what was expected, what came, and what to type next. ``open_again`` is the TypeError of what
cannot be pickled.
"""

from typing import NoReturn


class TieredMemoryError(Exception):
    """The root: ``except TieredMemoryError`` catches everything below."""


class InvalidInput(TieredMemoryError, ValueError):
    """An argument is not what the call takes; nothing was changed."""


class ScopeRequired(InvalidInput):
    """No scope was given and the memory has no default scope."""


class DuplicateId(InvalidInput):
    """An explicit id is already taken in this scope by a memory with another text."""


class NotFound(TieredMemoryError, LookupError):
    """The named memory or conversation node does not exist in this scope."""


def install_command(extra: str) -> str:
    """How to get an extra. From a checkout: the name ``tiered-memory`` on PyPI is another project's."""
    return f"in a checkout of this project, pip install '.[{extra}]'"


class MissingExtra(TieredMemoryError, ImportError):
    """An optional package is not installed; the message is the pip command."""

    @classmethod
    def named(cls, what: str, extra: str) -> "MissingExtra":
        """Build the one line a user needs: what was touched and how to install it."""
        return cls(f"{what} needs an extra that is not installed: {install_command(extra)}")


class EmbedderError(TieredMemoryError):
    """The embedder answered something that is not a finite (n, d) float32 array."""


class EmbedderMismatch(EmbedderError):
    """The file's vectors were made by another model than the one given now."""


class StorageError(TieredMemoryError):
    """The storage cannot be opened, read or written; nothing was half-written."""


class SchemaTooNew(StorageError):
    """The file was written by a newer release of this package."""


class Closed(StorageError):
    """The memory was closed and cannot be used any more."""


def open_again(self: object) -> NoReturn:
    """``__reduce__`` of what holds an open file: TypeError with what to do in the other process."""
    raise TypeError(
        f"a {type(self).__name__} cannot be pickled or copied, it holds an open file; "
        "open the file again in the child: TieredMemory.open(path)"
    )
