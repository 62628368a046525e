"""Masking what looks like keys, tokens and passwords in a text, before it is written down for good.

One pure function, the default of ``Settings.mask``; no storage and no settings here. It goes by shape, so it
cannot find them all: a password told in plain words without a digit passes. What it must not do is eat
what people remember: commit hashes, UUIDs, phone numbers, addresses and prices stay.
"""

from __future__ import annotations

import math
import re
from collections import Counter

MASK = "[masked]"
"""What stands in the place of a secret."""

_LONG_ENOUGH = 32
"""A run of characters without a known beginning is suspected from this length on,"""

_BITS = 3.9
"""and masked when its characters tell at least this much each (Shannon entropy, bits): random, not a name."""

_KNOWN = re.compile(
    r"""
      -----BEGIN\ [A-Z0-9 ]{0,40}PRIVATE\ KEY-----(?:[^-]{0,20000}-----END\ [A-Z0-9 ]{0,40}PRIVATE\ KEY-----|[^-]*)
    | \b(?:
        sk-[A-Za-z0-9_-]{16,}                                   # OpenAI, Anthropic and others
      | (?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{10,} | whsec_[A-Za-z0-9+/=]{16,}          # Stripe
      | gh[pousr]_[A-Za-z0-9]{20,} | github_pat_[A-Za-z0-9_]{20,} | gl(?:pat|ptt|dt|rt)-[A-Za-z0-9_-]{16,}
      | xox[abeoprs]-[A-Za-z0-9-]{10,} | xapp-[A-Za-z0-9-]{10,}  # Slack
      | A(?:KI|SI)A[A-Z0-9]{16}                                 # AWS
      | AIza[A-Za-z0-9_-]{30,} | ya29\.[A-Za-z0-9_-]{20,}       # Google
      | (?:hf|npm|gsk|dop_v1|shp(?:at|ss|ca)|lin_api|r8|pplx|tvly|xai|nvapi|dapi|secret|ntn|figd)[_-][A-Za-z0-9_-]{20,}
      | pypi-[A-Za-z0-9_-]{30,} | SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,} | AGE-SECRET-KEY-1[A-Z0-9]{40,}
      | eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?          # JSON Web Tokens
    )
    """,
    re.VERBOSE,
)
_URL = re.compile(r"\b([a-z][a-z0-9+.-]{1,20}://[^\s:/@]{0,200}:)([^\s/@]{1,200})(?=@)", re.IGNORECASE)
_HEADER = re.compile(
    r"\b(authorization\s*[:=]\s*(?:[a-z]+\s+)?|bearer\s+)(?!\[)([A-Za-z0-9._~+/=-]{12,})", re.IGNORECASE
)
_NAME = (
    r"(?:pass(?:word|wd|phrase|code)|pwd|(?:api|access|secret|private|auth|encryption|signing)[\s_-]?key|"
    r"(?:access|auth|api|refresh|bearer|session|bot)[\s_-]?token|token|client[\s_-]?secret|secret|credentials?|pin(?:[\s_-]?code)?|"
    r"密码|口令|密钥|秘钥|令牌)"
)
_TOLD = re.compile(
    rf"""({_NAME}["']?\s*(?:=|:|：|\bis\b|是|为)\s*["'`“]?)     # password=..., my password is ..., 密码是...
         (?=[^\s"'`“”,;，。；]{{0,200}}\d)                               # with a digit: "the token is invalid" tells none
         ([^\s"'`“”,;，。；]{{4,200}}[^\s"'`“”,;，。；.!?！？])""",
    re.VERBOSE | re.IGNORECASE,
)
_DIGIT = re.compile(r"\d")
_ASSIGNED = re.compile(rf"({_NAME}[\"']?=[\"'`]?)([^\s\"'`,;&]{{6,200}})", re.IGNORECASE)
_RUN = re.compile(rf"(?<![A-Za-z0-9+/_=.:@-])[A-Za-z0-9+/_-]{{{_LONG_ENOUGH},}}={{0,2}}(?![A-Za-z0-9+/_=@-])")


def mask_secrets(text: str) -> str:
    """The text with each secret that it seems to hold replaced by ``[masked]``; the very same text if it holds none.

    Masked are: private keys in PEM form; keys with the beginnings that well-known services give them; JSON Web
    Tokens; what follows "Authorization:" or "Bearer"; the password in a URL; what is named a password,
    key, token, secret or PIN in English or Chinese, when it holds a digit or follows "="; and long runs of letters of both
    cases and digits that look random. Masking twice changes nothing more.
    """
    text = _KNOWN.sub(MASK, text)
    if "://" in text:  # here and below: what the expression cannot do without, found much faster
        text = _URL.sub(rf"\1{MASK}", text)
    text = _HEADER.sub(rf"\1{MASK}", text)
    if _DIGIT.search(text):
        text = _TOLD.sub(rf"\1{MASK}", text)
    if "=" in text:
        text = _ASSIGNED.sub(rf"\1{MASK}", text)
    return _RUN.sub(lambda found: MASK if _random(found[0]) else found[0], text)


def _random(run: str) -> bool:
    """Whether a run of characters is no word, path or number: letters of both cases, digits, all over the place."""
    if not (re.search("[a-z]", run) and re.search("[A-Z]", run) and re.search("[0-9]", run)):
        return False
    if any(len(piece) < 16 for piece in re.split("[/_-]", run)) and re.search(r"[A-Za-z]{5,}[/_-][A-Za-z]{5,}", run):
        return False  # words joined: a path, a file name, a slug
    counts = Counter(run)
    return -sum(n / len(run) * math.log2(n / len(run)) for n in counts.values()) >= _BITS
