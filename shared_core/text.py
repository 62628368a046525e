"""Text: cutting it into index terms, windows and token estimates, and when two texts are the same.

Pure functions of strings. No scoring and no storage here.
"""

from __future__ import annotations

import math
import re
import threading
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from numbers import Real

import snowballstemmer

STOP_WORDS = frozenset(
    """a about above after again all also am an and any are as at be because been before being below between both but by
    can could did do does doing don down during each few for from further had has have having he her here hers herself
    him himself his how i if in into is it its itself just let ll me more most my myself no nor not now of off on once
    only or other our ours ourselves out over own re s same she should so some such t than that the their theirs them
    themselves then there these they this those through to too under until up ve very was we were what when where which
    while who whom why will with would you your yours yourself yourselves""".split()  # noqa: SIM905 - a list to read
)
ELSEWHERE_STOP_WORDS = frozenset(
    """de del el los las una unos unas que por para como pero muy cuando donde quien cual esta este esto eso fue mis sus
    le du des une est et qui dans avec sur pas vous nous je il elle ils elles cette ces aux ne quoi quel quelle quand
    der das und ist ich sie wir ihr nicht auf von zu zum zur im ein eine einen einem einer wie wann wer habe haben
    bist sind dem mein meine dein deine em uma nao gli nel della sono""".split()  # noqa: SIM905
)
"""Function words of Spanish, French, German, Italian and Portuguese, without those that are words or names in English
(pour, fur, bin, MIT)."""

CJK_STOP_WORDS = frozenset("的了是在我你他她它们吗呢吧啊和与就都也很这那有什么")
CJK_STOP_PHRASES = frozenset(
    """什么时候 什么样 什么 怎么样 怎么 怎样 如何 为什么 多少 哪里 哪儿 哪个 哪些 哪位 那个 这个 那位 这位 几个 来着 请问 一下 时候""".split()  # noqa: SIM905 - a list to read
)

# Scripts written without spaces between words: Thai, Lao, Myanmar, Khmer, kana, Han, Hangul.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_PIECES = re.compile(rf"(?P<unspaced>[{_UNSPACED}]+)|(?P<word>[^\W_{_UNSPACED}]+(?:['’][^\W_{_UNSPACED}]+)*)")
_CJK_STOPS = re.compile("|".join(sorted(CJK_STOP_PHRASES, key=len, reverse=True)))
SURROGATES = re.compile("[\ud800-\udfff]")

_stemmers = threading.local()  # a stemmer keeps the word it works on as its own state


@lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str:
    stemmer = getattr(_stemmers, "english", None)
    if stemmer is None:
        stemmer = _stemmers.english = snowballstemmer.stemmer("english")
    return str(stemmer.stemWord(word))


_INVISIBLE = dict.fromkeys(
    (0xAD, 0x200B, 0x2060, 0xFEFF)
)  # soft hyphen, zero width space, word joiner, byte order mark
_RAISED = re.compile("(?<=\\d)[²³¹⁰⁴-⁹₀-₉¼-¾⅐-⅞①-⑳]")


def _seen(text: str) -> str:
    """The text without what nobody sees, and a number kept apart from what stands raised behind it: 10² is not 102."""
    if text.isascii():
        return text
    return _RAISED.sub(r"^\g<0>", text.translate(_INVISIBLE))


def fold(text: str) -> str:
    """Case, width and accents folded: NFKC, casefold, combining marks of Latin letters dropped."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", _seen(text)).casefold()
    kept = "".join(ch for ch in decomposed if not "\u0300" <= ch <= "\u036f")
    return unicodedata.normalize("NFC", kept)


_NUMERALS = {ch: i for i, ch in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2}
_POWERS = {"十": 10, "百": 100, "千": 1000, "万": 10_000, "萬": 10_000}
_COUNTED = "年月日号號天周週个個点點時时分秒岁歲歳人名位元円块塊斤斗米件本台条條张張只杯层楼届度克吨回次"
_NUMERAL = re.compile(rf"[{''.join([*_NUMERALS, *_POWERS])}]{{1,12}}(?=[{_COUNTED}])")


def _counted_in_digits(folded: str) -> str:
    """Chinese numerals before what is counted, in digits: 三千人 is 3000人, 二〇二四年 2024年. Others stay: 一起, 星期三."""
    return folded if folded.isascii() else _NUMERAL.sub(lambda found: _digits(found[0]), folded)


def _digits(numeral: str) -> str:
    if _POWERS.keys().isdisjoint(numeral):
        return "".join(str(_NUMERALS[ch]) for ch in numeral)
    whole = below = digit = 0
    for ch in numeral:
        power = _POWERS.get(ch)
        if power is None:
            digit = _NUMERALS[ch]
        elif power == 10_000:
            whole, below, digit = (whole + below + digit or 1) * power, 0, 0
        else:
            below, digit = below + (digit or 1) * power, 0
    return str(whole + below + digit)


def terms(text: str) -> list[str]:
    """Index terms in text order, repeats kept: stems without stop words, and CJK characters and bigrams.

    A Chinese function word counts neither alone nor as half of a bigram, and words do not join across a
    question word: "怎么样" stands in few statements, so it would pass for a rare word and outweigh what is asked.
    A Chinese numeral before what it counts is a number: 二十三岁 is 23岁.
    Numbers lose their leading zeros, and one that an unspaced script goes on from is a pair with the character
    behind it as well: 03月 is 3月, which says more than a 3 somewhere and a 月 somewhere.
    """
    out: list[str] = []
    number, number_ends = "", -1
    for piece in _PIECES.finditer(_counted_in_digits(fold(text))):
        run = piece["unspaced"]
        if run:
            before = len(out)
            if number_ends == piece.start() and run[0] not in CJK_STOP_WORDS:
                out.append(number + run[0])
            for part in _CJK_STOPS.split(run):
                kept = [ch not in CJK_STOP_WORDS for ch in part]
                out += [ch for ch, keep in zip(part, kept, strict=True) if keep]
                out += [part[i : i + 2] for i in range(len(part) - 1) if kept[i] and kept[i + 1]]
            if len(out) == before:  # function words alone: better found by them than not at all
                out += [run[i : i + 2] for i in range(len(run) - 1)]
            continue
        if piece[0].isdecimal():
            number, number_ends = piece[0].lstrip("0")[:64] or "0", piece.end()
            out.append(number)
            continue
        for part in _parts(piece[0]):
            if part not in STOP_WORDS and part not in ELSEWHERE_STOP_WORDS:
                out.append(_stem(part) if len(part) < 64 else part[:64])
    return out


UNSPACED_PAIR, UNSPACED_CHARACTER = 0.5, 0.25
"""What a pair of characters of an unspaced script, and one alone, count of a word."""

_UNSPACED_TERM = re.compile(f"[{_UNSPACED}]{{1,2}}")


def share_of_word(term: str) -> float:
    """What an index term of a query counts, in (0, 1]: a word or a number 1, a piece of an unspaced script less.

    A word of four such characters is cut into seven terms that say one thing. Counted in full they outweigh the one
    number or name beside it that tells what is asked for: "whose telephone number is 5551234?" would find any telephone.
    """
    if term.isascii() or not _UNSPACED_TERM.fullmatch(term):
        return 1.0
    return UNSPACED_PAIR if len(term) == 2 else UNSPACED_CHARACTER


def normalised(text: str) -> str:
    """What two texts must share to be the same memory: case and width folded, white space collapsed."""
    return " ".join(unicodedata.normalize("NFKC", _seen(text)).casefold().split())


def without_surrogates(text: str) -> str:
    """The text with each lone surrogate, which UTF-8 cannot carry, replaced by U+FFFD."""
    return SURROGATES.sub("\ufffd", text)


def windows(text: str, *, size: int = 900, overlap: int = 200, most: int = 32) -> list[str]:
    """Cut a long text into overlapping windows of about ``size`` characters, at white space where there is any.

    At most ``most`` windows, spread evenly when the text would need more. A short text is one window.
    """
    if len(text) <= size:
        return [text]
    step = size - overlap
    count = math.ceil((len(text) - overlap) / step)
    if count > most:
        count, step = most, (len(text) - size) // max(most - 1, 1)
    cut = []
    for i in range(count):
        start = i * step
        if start and not text[start - 1].isspace():
            space = text.find(" ", start, start + overlap // 2)
            start = space + 1 if space >= 0 else start
        cut.append(text[start : start + size])
    return cut


_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")
_FOLLOWING = bytes(range(0x80, 0xC0))  # the bytes of a character in UTF-8 after its first


def _kind(byte: int) -> str:
    """Of a byte of UTF-8: a Latin letter, a digit, a line break, white space, the start of a wide character, or a mark."""
    if byte >= 0x80:
        return "w" if byte >= 0xE0 else "."
    if byte == 10:
        return "\n"
    letter = chr(byte)
    return "a" if letter.isalpha() else "0" if letter.isdigit() else " " if letter.isspace() else "."


_KINDS = "".join(map(_kind, range(256))).encode()


def estimate_tokens(text: str) -> int:
    """An estimate of a text's tokens that errs on the high side, for any provider's tokenizer.

    A Latin word costs one token per five letters begun, a number one per three digits begun, a line
    break and a mark of punctuation one each, another character one per two UTF-8 bytes begun.
    """
    # Every character becomes its kind, then every token one byte: full groups first, then what is left of each run.
    if text.isascii():
        kinds = text.encode().translate(_KINDS)
    else:
        wide = _WIDE_SPACE.sub(" ", text).encode("utf-8", "surrogatepass")
        kinds = wide.translate(_KINDS, _FOLLOWING).replace(b"w", b"..")
    kinds = kinds.replace(b"aaaaa", b".").replace(b"aa", b"a").replace(b"aa", b"a")
    kinds = kinds.replace(b"000", b".").replace(b"00", b"0")
    while b"\n\n" in kinds:
        kinds = kinds.replace(b"\n\n", b"\n")
    return len(kinds) - kinds.count(b" ")


def counted_tokens(value: object) -> int:
    """What a counter of tokens returned, rounded up. ValueError for what is no count: negative, infinite, no number."""
    if not isinstance(value, Real) or not 0 <= float(value) < math.inf:
        raise ValueError(f"count_tokens: expected a whole number of tokens, 0 or more, got {value!r:.100}")
    return math.ceil(float(value))


def shortened(text: str, most_characters: int, *, where: str = "") -> str:
    """The head and the tail of a text over ``most_characters``, and between them how many are left out, and ``where``.

    A text that would hardly be shorter stays as it is: the note has its length too.
    """
    if len(text) <= most_characters:
        return text
    head, tail = 2 * most_characters // 3, most_characters // 3
    gone = len(text) - head - tail
    note = f"\n[… {gone} characters left out{where} …]\n"
    return text if gone <= len(note) else text[:head] + note + text[len(text) - tail :]


def within_tokens(texts: Sequence[str], most_tokens: int, count: Callable[[str], int]) -> list[str]:
    """The texts, shortened to about so many tokens together, each by the same share; as they are if they fit.

    What a text takes in characters for a token here, it takes in what is left of it.
    """
    sizes = [count(text) for text in texts]
    total = sum(sizes)
    if total <= most_tokens:
        return list(texts)
    return [_within(text, size, size * most_tokens // total, count) for text, size in zip(texts, sizes, strict=True)]


def _within(text: str, tokens: int, most_tokens: int, count: Callable[[str], int]) -> str:
    short, characters = text, len(text)
    while tokens > most_tokens and characters > 0:
        characters = min(characters * most_tokens // tokens, characters * 9 // 10)
        short = shortened(text, characters)
        tokens = count(short)
    return short


def is_question(text: str) -> bool:
    """Whether a text ends by asking something."""
    return text.rstrip(" \t\r\n!！\"'”’)）」』").endswith(("?", "？", "吗", "呢"))


def every_word(text: str) -> list[str]:
    """All words of a text in order, folded, function words too; of unspaced scripts every character."""
    return [word for piece in _PIECES.finditer(fold(text)) for word in (piece["unspaced"] or _parts(piece["word"]))]


def _parts(word: str) -> list[str]:
    return re.split("['’]", word) if "'" in word or "’" in word else [word]


_NUMBERS = re.compile(
    r"(?:(?<![\w.])[-−])?\d+(?:[.,:]\d+)*|\b(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|"
    r"thousand|first|second|third|twice|half)\b|[〇一二两三四五六七八九十百千万]"
)
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|cannot|without|nicht|kein(?:e[mnrs]?)?|nie|ohne|pas|jamais|sans|nao|"
    r"nunca|jamas|sin|sem|mai|senza)\b|n['’]t\b|[不没無无未别非]"
)
_SIGNS = re.compile(r"[$€£¥₹₩%°+<>=]|(?<=\w)#")
_EITHER_WAY = frozenset(
    """a an the i me my myself you your yours yourself yourselves he him his himself she her hers herself it its itself we
    our ours ourselves they them their theirs themselves am is are be been being do does doing have has having let just so
    too very that this these those there here own same such again also further once then s t re ll ve don""".split()  # noqa: SIM905
)
"""Function words that an answer changes when it repeats what it was told: "I take my coffee", "you take your coffee"."""
_COMPARED = 50_000  # characters; a longer text would take longer to compare than to read
_NEARLY = 0.95  # one word in twenty; a shorter text that differs in any word is another memory


@dataclass(frozen=True, slots=True)
class Signature:
    """What near-identical texts share: words with their neighbours, and exactly what turns a meaning round.

    That are numbers, signs, negations, function words such as "on" and "off", and whether it asks.
    """

    whole: str
    shingles: frozenset[str]
    exact: tuple[str, ...]


def signature(text: str, *, literal: bool = False) -> Signature:
    """The parts of a text that ``near_identical`` compares: its index terms, or ``literal`` every word as it stands.

    Literally, who it is about differs too: "I owe you" and "you owe me" are two texts of one speaker, and one fact when
    the other side repeats it. A text of more than 50 000 characters is like none but itself.
    """
    if len(text) > _COMPARED:
        return Signature(normalised(text), frozenset(), ())
    folded = fold(text)
    every = every_word(text)
    words = every if literal else terms(text)
    pairs = (f"{first} {then}" for first, then in pairwise(words))
    small = [
        "was" if word == "were" else word
        for word in every
        if (word in STOP_WORDS or word in ELSEWHERE_STOP_WORDS) and word not in _EITHER_WAY
    ]
    exact = (*_NUMBERS.findall(folded), *_SIGNS.findall(folded), *_NEGATION.findall(folded), *small)
    return Signature(normalised(text), frozenset((*words, *pairs)), (*exact, "?") if is_question(text) else exact)


def near_identical(one: Signature, other: Signature) -> bool:
    """Whether two texts say the same in all but a few words; what turns a meaning round must agree."""
    if one.whole == other.whole:
        return True
    fewer, more = sorted((len(one.shingles), len(other.shingles)))
    if one.exact != other.exact or fewer < _NEARLY * more or not fewer:
        return False
    return len(one.shingles & other.shingles) >= _NEARLY * len(one.shingles | other.shingles)
