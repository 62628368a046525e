"""Which shell lines only read: the classifier an agent's author puts before a cache of shell commands.

One tool ``bash`` cannot have one policy, because whether it writes stands in its argument. So the author
registers two names that share a space, one for what is known to read and one for everything else, and
picks the name by this function. It fails closed: what it does not understand, writes.

A line only reads if every command of it, split at pipes, ``&&`` and ``;`` (and line ends), is one of
``READERS``, ``sed -n`` that only prints, ``find`` without actions, or a reading ``git`` command; and if
nothing is redirected, substituted or sent to the background.
"""

from __future__ import annotations

import re
from typing import Final

READERS: Final = frozenset({"ls", "cat", "head", "tail", "grep", "rg", "find", "wc", "pwd", "echo", "sed", "git"})
GIT_READERS: Final = frozenset({"status", "log", "show", "diff", "grep", "blame"})
_EXPANDS: Final = re.compile(r"\$[A-Za-z0-9_({?!#@*$-]")
_FIND_ACTS: Final = re.compile(r"-(exec|execdir|ok|okdir|delete|fprint|fprint0|fprintf|fls)$")
# Addresses (numbers, $, /patterns/) and the commands p and =, nothing that writes (w) or executes (e).
_SED_PRINTS: Final = re.compile(
    r"(?:(?:\d+|\$|/(?:\\.|[^/\\])*/)?[,+~!\s]*)*[p=](?:\s*;\s*(?:(?:\d+|\$)[,\s]*)*[p=q])*\s*;?\s*$"
)


def only_reads(line: str) -> bool:
    """Whether a shell line changes nothing, as far as its text shows."""
    found = commands(line)
    return bool(found) and all(command and _reads(command) for command in found)


def commands(line: str) -> list[list[str]] | None:
    """The commands of a line as lists of words, quotes removed; None if there is more to it than plain commands.

    An empty list stands where a command is missing (``a || b``, ``&& b``).
    """
    found: list[list[str]] = [[]]
    word: str | None = None  # None between words: '' is a word that was written as quotes
    quote, i = "", 0
    while i < len(line):
        char, after = line[i], line[i + 1 : i + 2]
        i += 1
        if quote == "'":
            quote, word = ("", word) if char == "'" else (quote, (word or "") + char)
        elif char == "`" or _EXPANDS.match(char + after) or (char == "$" and not quote and after in ("'", '"')):
            return None
        elif char == "\\":
            i += 1
            if after != "\n":
                kept = char + after if quote and after not in ('"', "\\", "`", "$") else after
                word = (word or "") + kept
        elif quote:
            quote, word = ("", word) if char == '"' else (quote, (word or "") + char)
        elif char in "'\"":
            quote, word = char, word or ""
        elif char == "#" and word is None:
            end = line.find("\n", i)
            i = len(line) if end < 0 else end
        elif char in "<>()":
            return None
        elif char in " \t;\n|&":
            if word is not None:
                found[-1].append(word)
                word = None
            if char == "&":
                if after != "&":
                    return None
                i += 1
            if char in "|&" or (char in ";\n" and found[-1]):
                found.append([])
        else:
            word = (word or "") + char
    if quote:
        return None
    if word is not None:
        found[-1].append(word)
    if not found[-1] and line.rstrip()[-1:] not in ("|", "&"):
        found.pop()  # what ends in ; or in a comment is complete
    return found


def _reads(command: list[str]) -> bool:
    name, *rest = command
    if name not in READERS:
        return False
    if name == "find":
        return not any(_FIND_ACTS.match(word) for word in rest)
    if name == "rg":
        return not any(word.startswith(("--pre", "--hostname-bin")) for word in rest)
    if name == "git":
        asks = rest[:1] == ["--no-pager"]
        known = rest[asks : asks + 1]
        acts = any(word.startswith(("--output", "--ext-diff", "--open-files-in-pager", "-O")) for word in rest)
        return bool(known) and known[0] in GIT_READERS and not acts
    if name == "sed":
        options = [word for word in rest if word.startswith("-")]
        scripts = [word for word in rest if not word.startswith("-")]
        quiet = bool(options) and all(word in ("-n", "-E", "-r", "--quiet", "-e") for word in options)
        return quiet and "-n" in options and bool(scripts) and bool(_SED_PRINTS.match(scripts[0]))
    return True
