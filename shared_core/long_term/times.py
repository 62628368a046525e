"""Times in words: "last week", "in May 2023", 上周五, as stretches of the calendar of a zone.

A pure function of text, a given ``now`` and a given zone; English and Chinese here, what other languages say in
``time_words.py``. What a query does with
the time it names lives in ``query.py``.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial

from shared_core.long_term.time_words import ago, dates, phrases
from shared_core.text import fold

Span = tuple[float, float]
"""``since <= t < until``, epoch seconds UTC."""


DAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
MONTHS = "january february march april may june july august september october november december".split()  # noqa: SIM905
_MONTH = "|".join(MONTHS)

_NUMBERS = {word: i for i, word in enumerate("zero one two three four five six seven eight nine ten".split())}  # noqa: SIM905
_NUMBERS |= {"a": 1, "an": 1, "couple of": 2, "a couple of": 2, "few": 3, "a few": 3}
_ZH_NUMBERS = {**{ch: i for i, ch in enumerate("零一二三四五六七八九十")}, "两": 2, "几": 3, "十一": 11, "十二": 12}
_ZH_DAYS = {ch: i for i, ch in enumerate("一二三四五六日")} | {"天": 6}
_SEASONS = {"spring": 3, "summer": 6, "fall": 9, "autumn": 9, "winter": 12}
YEARS_BACK = 12
"""A month named without its year means that month of any of this many years up to now."""

_ZH_NUMBER = r"(?:(?<!\d)\d{1,4}|[零一二三四五六七八九十两几]{1,3})"
_EXPRESSIONS = re.compile(
    rf"""
      \b(?P<iso>(?:19|20)\d\d-\d\d?-\d\d?)\b
    | \b(?P<d1>\d\d?)(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<m1>{_MONTH})\b(?:,?\s+(?P<y1>(?:19|20)\d\d))?
    | \b(?P<m2>{_MONTH})\s+(?P<d2>\d\d?)(?:st|nd|rd|th)?\b(?!\s*(?:am|pm|:))(?:,?\s+(?P<y2>(?:19|20)\d\d))?
    | \b(?P<m3>{_MONTH}),?\s+(?:of\s+)?(?P<y3>(?:19|20)\d\d)\b
    | \b(?:in|during|of|since|by|from|until|this|last|early|mid|late)[\s-]+(?P<m4>{_MONTH})\b(?!,?\s+(?:of\s+)?\d)
    | \b(?:the\s+)?(?P<season>spring|summer|fall|autumn|winter)(?:\s+of)?\s+(?P<ys>(?:19|20)\d\d)\b
    | (?P<y5>(?:19|20)\d\d)年(?:(?P<zm1>\d\d?)月(?:份)?(?:(?P<zd1>\d\d?)[日号])?)?
    | (?P<zm2>\d\d?|十[一二]|[一二三四五六七八九十])月(?:份)?(?:(?P<zd2>\d\d?)[日号])?
    | \b(?P<ago>\d{{1,4}}|a\ few|few|a\ couple\ of|couple\ of|an?|one|two|three|four|five|six|seven|eight|nine|ten)
        \s+(?P<ago_unit>day|week|month|year)s?\s+ago\b
    | (?P<zago>{_ZH_NUMBER})(?:[个個かヶカ])?(?P<zago_unit>天|日|周|週間?|星期|礼拜|月|年)(?:之|以)?前
    | \b(?P<rel>last|past|previous|this|current)\s+(?P<rel_unit>week|weekend|month|year|night|{DAYS})\b
    | (?P<zrel>上上|上|这|本)个?(?P<zrel_unit>周末|周|星期|礼拜|月)(?P<zday>[一二三四五六日天])?
    | (?P<zyear>前年|去年|今年)
    | \b(?P<before>the\ day\ before\ yesterday)\b | \b(?P<day>yesterday|today|tonight)\b | (?P<zd>(?<!大)前天|昨天|昨晚|今天|今晚)
    | \b(?:in|during|of|since|by|from|until|en|em|im\ jahr|nel|desde|depuis|seit)\s+(?P<y6>(?:19|20)\d\d)\b
    """,
    re.VERBOSE,
)


def spans(text: str, *, now: float, zone: tzinfo = UTC) -> tuple[Span, ...]:
    """The stretches of time that ``text`` means, seen from ``now`` in ``zone``: "last week", "in May 2023", 上周五.

    A month or day without its year stands for that one of any of the last YEARS_BACK years. Weeks
    begin on Monday. A date that has not begun is another year's, or a slip; "tomorrow" and "next week" lie ahead. What is no possible date is passed over; where ``now`` is none, all of it.
    """
    try:
        today = datetime.fromtimestamp(now, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    except (ValueError, OverflowError, OSError):
        return ()
    found: list[Span] = []
    for match in _EXPRESSIONS.finditer(fold(text)):
        try:
            pairs = _read({key: value for key, value in match.groupdict().items() if value is not None}, today)
            found += [(since.timestamp(), until.timestamp()) for since, until in pairs if since.timestamp() <= now]
        except (ValueError, OverflowError):
            continue
    found += _elsewhere(fold(text), today, now)
    return tuple(dict.fromkeys(found))


def _elsewhere(folded: str, today: datetime, now: float) -> list[Span]:
    """What is said in other languages, and of days to come."""
    found: list[Span] = []
    for read in (
        *(partial(_phrase, today, *one) for one in phrases(folded)),
        *(partial(_around, today, *one) for one in ago(folded)),
    ):
        try:
            since, until = read()
            found.append((since.timestamp(), until.timestamp()))
        except (ValueError, OverflowError):
            continue
    for year, month, day in dates(folded):
        for each in [year] if year else [today.year - back for back in range(YEARS_BACK)]:
            try:
                since, until = _dates(today, each, month, day)
                found += [(since.timestamp(), until.timestamp())] * (since.timestamp() <= now)
            except (ValueError, OverflowError):
                continue
    return found


def _phrase(today: datetime, unit: str, back: int) -> tuple[datetime, datetime]:
    """A unit of ``time_words.phrases``, so many back, as its days."""
    kind, _, day = unit.rpartition(" ")
    monday = today - timedelta(days=today.weekday(), weeks=back)
    if kind == "week day":
        since = monday + timedelta(days=int(day))
    elif kind == "last":
        since = today - timedelta(days=(today.weekday() - int(day) - 1) % 7 + 1)
    elif kind == "next":
        since = today + timedelta(days=(int(day) - today.weekday() - 1) % 7 + 1)
    elif unit == "week":
        return monday, monday + timedelta(days=7)
    elif unit == "weekend":
        return monday + timedelta(days=5), monday + timedelta(days=7)
    elif unit == "month":
        since = _months(today.replace(day=1), -back)
        return since, _months(since, 1)
    elif unit == "year":
        return _dates(today, today.year - back)
    else:
        since = today - timedelta(days=back)
    return since, since + timedelta(days=1)


def _read(got: dict[str, str], today: datetime) -> list[tuple[datetime, datetime]]:
    """One expression as pairs of local times; ValueError for an impossible date."""
    if "iso" in got:
        year, month, day = (int(part) for part in got["iso"].split("-"))
        return [_dates(today, year, month, day)]
    if "season" in got:
        since = _dates(today, int(got["ys"]), _SEASONS[got["season"]])[0]
        return [(since, _months(since, 3))]
    year_text = next((got[key] for key in ("y1", "y2", "y3", "y5", "y6") if key in got), None)
    month_text = next((got[key] for key in ("m1", "m2", "m3", "m4", "zm1", "zm2") if key in got), None)
    day_text = next((got[key] for key in ("d1", "d2", "zd1", "zd2") if key in got), None)
    if year_text or month_text:
        named_month = None if month_text is None else _month(month_text)
        named_day = None if day_text is None else int(day_text)
        years = [int(year_text)] if year_text else [today.year - back for back in range(YEARS_BACK)]
        return [
            _dates(today, each, named_month, named_day)
            for each in years
            if (named_month, named_day) != (2, 29) or _leap(each)
        ]
    if "ago" in got or "zago" in got:
        return [_ago(got, today)]
    if "rel" in got or "zrel" in got or "zyear" in got:
        return [_relative(got, today)]
    back = {"yesterday": 1, "昨天": 1, "昨晚": 1, "前天": 2}.get(got.get("day") or got.get("zd") or "", 0)
    since = today - timedelta(days=2 if "before" in got else back)
    return [(since, since + timedelta(days=1))]


def _ago(got: dict[str, str], today: datetime) -> tuple[datetime, datetime]:
    count_text = got.get("ago") or got["zago"]
    count = int(count_text) if count_text.isdigit() else {**_NUMBERS, **_ZH_NUMBERS}.get(count_text, 3)
    unit = got.get("ago_unit") or {"天": "day", "日": "day", "月": "month", "年": "year"}.get(got["zago_unit"], "week")
    return _around(today, unit, count)


def _around(today: datetime, unit: str, count: int) -> tuple[datetime, datetime]:
    """Three weeks ago: the unit's length around that day, since nobody means it to the day."""
    if unit == "day":
        return today - timedelta(days=count), today - timedelta(days=count - 1)
    if unit == "week":
        middle = today - timedelta(weeks=count)
        return middle - timedelta(days=3), middle + timedelta(days=4)
    months = count * (12 if unit == "year" else 1)
    middle, half = _months(today, -months), timedelta(days=183 if unit == "year" else 15)
    return middle - half, middle + half


def _relative(got: dict[str, str], today: datetime) -> tuple[datetime, datetime]:
    """Last week, this month, last Friday, 上周五, 去年."""
    if "zyear" in got:
        return _dates(today, today.year - "今去前".index(got["zyear"][0]))
    back = {"this": 0, "current": 0, "这": 0, "本": 0, "上上": 2}.get(got.get("rel") or got["zrel"], 1)
    unit = got.get("rel_unit") or got["zrel_unit"]
    monday = today - timedelta(days=today.weekday())
    if unit == "night":
        return today - timedelta(days=back), today
    if unit in DAYS.split("|"):
        since = today - timedelta(days=(today.weekday() - DAYS.split("|").index(unit) - 1) % 7 + 1)
        return since, since + timedelta(days=1)
    if unit in ("month", "月"):
        since = _months(today.replace(day=1), -back)
        return since, _months(since, 1)
    if unit == "year":
        return _dates(today, today.year - back)
    week = monday - timedelta(weeks=back)
    if "zday" in got:
        since = week + timedelta(days=_ZH_DAYS[got["zday"]])
        return since, since + timedelta(days=1)
    first = timedelta(days=5 if unit in ("weekend", "周末") else 0)
    return week + first, week + timedelta(days=7)


def _dates(today: datetime, year: int, month: int | None = None, day: int | None = None) -> tuple[datetime, datetime]:
    """A year, a month or a day, from its first midnight to the next one, in the zone of ``today``."""
    since = today.replace(year=year, month=month or 1, day=day or 1)
    if day is not None:
        return since, since + timedelta(days=1)
    return since, _months(since, 12 if month is None else 1)


def _months(start: datetime, count: int) -> datetime:
    years, month = divmod(start.month - 1 + count, 12)
    year, month = start.year + years, month + 1
    last = [31, 29 if _leap(year) else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1]
    return start.replace(year=year, month=month, day=min(start.day, last))


def _month(text: str) -> int:
    month = MONTHS.index(text) + 1 if text in MONTHS else int(text) if text.isdigit() else _ZH_NUMBERS[text]
    if not 1 <= month <= 12:
        raise ValueError(text)
    return month


def _leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
