"""Times in words of other languages, and times ahead, as a unit of the calendar and how many of it back.

Data and one pattern made of it: Spanish, French, German, Italian, Portuguese, Japanese, Korean, and what English and
Chinese say of days to come. A language needs no detection: its phrases are its own, and those that another language
has too ("hier", "morgen") are taken only where their neighbours agree. What a unit means is in ``times.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

AHEAD = -1

_UNITS = {  # unit -> its name, what is said for the last, this and the next one; folded, without accents
    "day": (
        r"\bayer\b|\bgestern\b|\bieri\b|\bontem\b|昨日|きのう|어제",
        r"\bhoy\b|\bheute\b|\baujourd['’]hui\b|\boggi\b|\bhoje\b|今日|きょう|오늘",
        (
            r"\btomorrow\b|(?<!la )(?<!esta )(?<!de )\bmanana\b|\bdemain\b|(?<!guten )(?<!heute )(?<!am )\bmorgen\b|\bdomani\b|"
            r"\bamanha\b|明天|明晚|明早|明日|あした|내일"
        ),
    ),
    "week": (
        (
            r"\bsemana pasada\b|\bpasada semana\b|\bsemaine (?:derniere|passee)\b|\b(?:letzte[rn]?|vorige|vergangene) woche\b|"
            r"\bsettimana scorsa\b|\bscorsa settimana\b|\bsemana passada\b|先週|上週|지난 ?주(?!말)"
        ),
        r"\besta semana\b|\bcette semaine\b|\bdiese[rn]? woche\b|\bquesta settimana\b|\bnesta semana\b|今週|이번 ?주(?!말)",
        (
            r"\bnext week\b|\b(?:proxima semana|semana (?:que viene|proxima|que vem))\b|\bsemaine prochaine\b|"
            r"\b(?:nachste[rn]?|kommende[rn]?) woche\b|\b(?:prossima settimana|settimana prossima)\b|"
            r"(?<!下)下个?(?:周|星期|礼拜)(?![一二三四五六日天末])|来週|다음 ?주(?!말)"
        ),
    ),
    "weekend": (
        r"\bfin de semana pasado\b|\bweek-?end dernier\b|\bletzte[sn]? wochenende\b|先週末|지난 ?주말",
        r"\beste fin de semana\b|\bce week-?end\b|\bdiese[sn]? wochenende\b|今週末|이번 ?주말",
        r"\bnext weekend\b|\bproximo fin de semana\b|\bweek-?end prochain\b|\bnachste[sn]? wochenende\b|下个?周末|来週末|다음 ?주말",
    ),
    "month": (
        (
            r"\bmes pasado\b|\bpasado mes\b|\bmois (?:dernier|passe)\b|\b(?:letzte[nrm]?|vorige[nm]?|vergangene[nm]?) monat\b|"
            r"\bmese scorso\b|\bmes passado\b|先月|지난 ?달"
        ),
        r"\beste mes\b|\bce mois(?:-ci)?\b|\bdiese[nmr]? monat\b|\bquesto mese\b|今月|이번 ?달",
        (
            r"\bnext month\b|\b(?:proximo mes|mes que viene|mes que vem)\b|\bmois prochain\b|\b(?:nachste[nmr]?|kommende[nm]?) monat\b|"
            r"\b(?:prossimo mese|mese prossimo)\b|下个?月|来月|다음 ?달"
        ),
    ),
    "year": (
        (
            r"\bano (?:pasado|passado)\b|\b(?:an|annee) (?:dernier|derniere|passee?)\b|\b(?:letzte[sn]?|voriges|vergangenes) jahr\b|"
            r"\banno scorso\b|昨年|작년|지난해"
        ),
        r"\beste ano\b|\bcette annee\b|\bdiese[sm]? jahr\b|\bquest['’]anno\b|올해",
        (
            r"\bnext year\b|\b(?:proximo ano|ano que viene|ano que vem)\b|\b(?:an|annee) prochaine?\b|\b(?:nachste[sn]?|kommende[sn]?) jahr\b|"
            r"\banno prossimo\b|明年|来年|내년"
        ),
    ),
}
_FURTHER = {  # what is said for two back and two ahead; "nachsten" and the like are above
    (
        "day",
        2,
    ): r"\banteayer\b|\bantes de ayer\b|\bavant-hier\b|\bvorgestern\b|\bl['’]altro ieri\b|\banteontem\b|前日|一昨日|おととい|그저께|그제",
    ("day", 3): r"大前天",
    (
        "day",
        -2,
    ): r"\bday after tomorrow\b|\bpasado manana\b|\bapres-demain\b|\bubermorgen\b|\bdopodomani\b|\bdepois de amanha\b|"
    r"(?<!大)后天|明後日|あさって|모레",
    ("day", -3): r"大后天",
    ("week", -2): r"下下个?(?:周|星期|礼拜)(?![一二三四五六日天末])",
    ("year", 2): r"一昨年|재작년",
    ("year", -2): r"后年",
}
_HIER = re.compile(r"\bhier\b")
_FRENCH = re.compile(r"\b(?:je|j|il|elle|nous|vous|qu|que|quoi|qui|est|les|une|soir|ai|avons|ete)\b")

WEEKDAYS = (
    ("lunes", "lundi", "montag", "lunedi", "月曜", "월요일", "一"),
    ("martes", "mardi", "dienstag", "martedi", "火曜", "화요일", "二"),
    ("miercoles", "mercredi", "mittwoch", "mercoledi", "水曜", "수요일", "三"),
    ("jueves", "jeudi", "donnerstag", "giovedi", "木曜", "목요일", "四"),
    ("viernes", "vendredi", "freitag", "venerdi", "金曜", "금요일", "五"),
    ("sabado", "samedi", "samstag", "sabato", "土曜", "토요일", "六"),
    ("domingo", "dimanche", "sonntag", "domenica", "日曜", "일요일", "[日天]"),
)
_ENGLISH_DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()  # noqa: SIM905

_MONTHS = (
    "enero janvier januar gennaio janeiro",
    "febrero fevrier februar febbraio fevereiro",
    "marzo mars marz marco",
    "abril avril april aprile",
    "mayo mai maggio maio",
    "junio juin juni giugno junho",
    "julio juillet juli luglio julho",
    "agosto aout august",
    "septiembre septembre september settembre setembro",
    "octubre octobre oktober ottobre outubro",
    "noviembre novembre november novembro",
    "diciembre decembre dezember dicembre dezembro",
)
MONTH_NUMBERS = {name: i for i, names in enumerate(_MONTHS, 1) for name in names.split()}

_NUMBER_WORDS = (
    "un una une ein einem einer uno um uma 한",
    "dos deux zwei due dois duas 두",
    "tres trois drei tre 세",
    "cuatro quatre vier quattro quatro",
    "cinco cinq funf cinque",
    "seis six sechs sei",
    "siete sept sieben sette sete",
    "ocho huit acht otto oito",
    "nueve neuf neun nove",
    "diez dix zehn dieci dez",
)
NUMBERS = {word: i for i, words in enumerate(_NUMBER_WORDS, 1) for word in words.split()} | {
    "unos": 3, "unas": 3, "quelques": 3, "einigen": 3, "ein paar": 3, "alcuni": 3, "alguns": 3,
}  # fmt: skip
_NUMBER = "|".join(sorted(NUMBERS, key=len, reverse=True))

_AGO_UNITS = (
    ("day", r"dias?|jours?|tage?n?|giorn[oi]|일"),
    ("week", r"semanas?|semaines?|wochen?|settiman[ae]|주"),
    ("month", r"mes(?:es)?|mois|monate?n?|mes[ei]|달|개월"),
    ("year", r"anos?|ans?|annees?|jahre?n?|ann[oi]|년"),
)
_ANY_UNIT = "|".join(pattern for _, pattern in _AGO_UNITS)
AGO = re.compile(
    rf"\b(?:hace|il y a|vor|ha)\s+(?P<count>\d{{1,4}}|{_NUMBER})\s+(?P<unit>{_ANY_UNIT})\b|"
    rf"\b(?P<count2>\d{{1,4}}|{_NUMBER})\s+(?P<unit2>{_ANY_UNIT})\s+(?:fa|atras)\b|"
    rf"(?P<count3>(?<!\d)\d{{1,4}}|[한두세])\s?(?P<unit3>일|주|달|개월|년)\s?전"
)
"""Three weeks ago: ``count`` and ``unit``, as ``ago`` reads them."""

_DATED = "|".join(sorted(MONTH_NUMBERS, key=len, reverse=True))
DATE = re.compile(
    rf"\b(?P<d>\d\d?)(?:\.|er|º|o)?\s+(?:de\s+)?(?P<m>{_DATED})\b(?:,?\s+(?:del?\s+)?(?P<y>(?:19|20)\d\d))?|"
    rf"\b(?:(?:en|im|em|in|au|de|desde|depuis|seit|mes de|mois de)\s+)(?P<m2>{_DATED})\b(?:,?\s+(?:del?\s+)?(?P<y2>(?:19|20)\d\d))?|"
    rf"\b(?P<m3>{_DATED})\s+(?:del?\s+)?(?P<y3>(?:19|20)\d\d)\b"
)
"""A month with its day, its year, or a preposition before it: 7 de mayo de 2023, im März, en août 2022."""


def _phrases() -> Iterator[tuple[str, tuple[str, int]]]:
    for (unit, back), pattern in _FURTHER.items():
        yield pattern, (unit, back)
    for day, names in enumerate(WEEKDAYS):
        *latin, japanese, korean, chinese = names
        one = "|".join(latin)
        before = rf"\b(?:(?:letzte[nmr]?|vorige[nm]?|pasado|ultimo)\s+(?:{one})|(?:{one})\s+(?:pasado|dernier|scorso|passado))\b"
        yield rf"{before}|先週の?{japanese}日?|지난 ?주? ?{korean}", (f"last {day}", 1)
        after = (
            rf"\bnext {_ENGLISH_DAYS[day]}\b|\b(?:nachste[nmr]?|kommende[nm]?|proximo|prossimo)\s+(?:{one})\b|"
            rf"\b(?:{one})\s+(?:que viene|proximo|prochain|prossimo)\b"
        )
        yield after, (f"next {day}", AHEAD)
        yield (
            rf"(?<!下)下个?(?:周|星期|礼拜){chinese}|来週の?{japanese}日?|다음 ?주 ?{korean}",
            (f"week day {day}", AHEAD),
        )
        yield rf"下下个?(?:周|星期|礼拜){chinese}", (f"week day {day}", 2 * AHEAD)
    for unit in ("weekend", "week", "month", "year", "day"):
        for back, pattern in zip((1, 0, AHEAD), _UNITS[unit], strict=True):
            yield pattern, (unit, back)


_MEANT = list(_phrases())
_PHRASES = re.compile("|".join(f"(?P<p{i}>{pattern})" for i, (pattern, _) in enumerate(_MEANT)))


def phrases(folded: str) -> Iterator[tuple[str, int]]:
    """Each phrase of a folded text as its unit and how many back, below 0 for what lies ahead.

    Units: day, week, weekend, month, year; ``last i`` and ``next i``, the nearest weekday i (Monday 0) before or
    after today; ``week day i``, that day of the week so many back.
    """
    for match in _PHRASES.finditer(folded):
        yield _MEANT[int(str(match.lastgroup)[1:])][1]
    if _HIER.search(folded) and _FRENCH.search(folded):  # in German it means "here"
        yield "day", 1


def ago(folded: str) -> Iterator[tuple[str, int]]:
    """Each "three weeks ago" of a folded text as its unit and number."""
    for match in AGO.finditer(folded):
        got = [value for value in match.groups() if value is not None]
        count = int(got[0]) if got[0].isdigit() else NUMBERS[got[0]]
        yield next(unit for unit, pattern in _AGO_UNITS if re.fullmatch(pattern, got[1])), count


def dates(folded: str) -> Iterator[tuple[int | None, int, int | None]]:
    """Each date of a folded text: year, month, day, None for what is not said."""
    for match in DATE.finditer(folded):
        got = match.groupdict()
        year = got["y"] or got["y2"] or got["y3"]
        month = MONTH_NUMBERS[got["m"] or got["m2"] or got["m3"]]
        yield (int(year) if year else None), month, (int(got["d"]) if got["d"] else None)
