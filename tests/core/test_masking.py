"""What looks like a key or a token is masked before it is written; what people remember is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import TieredMemory
from shared_core.errors import DuplicateId, InvalidInput
from shared_core.masking import MASK, mask_secrets
from shared_core.settings import Settings
from shared_core.testing import FakeClock
from shared_core.testing.embedders import HashEmbedder

CANARY = "Zx9QwK3mTr8LpV2nBs6YdF4hJc7GaE1u"  # made up for this file

SECRETS = [
    (f"my key is sk-proj-{CANARY}", f"my key is {MASK}"),
    ("export AWS_ACCESS_KEY_ID=AKIAABCDEFGHIJKLMNOP now", f"export AWS_ACCESS_KEY_ID={MASK} now"),
    (f"token ghp_{CANARY}!", f"token {MASK}!"),
    (f"curl -H 'Authorization: Bearer {CANARY}'", f"curl -H 'Authorization: Bearer {MASK}'"),
    ("postgres://ada:s3cret@db.example:5432/x", f"postgres://ada:{MASK}@db.example:5432/x"),
    ("My password is hunter22.", f"My password is {MASK}."),
    ("password=correcthorse", f"password={MASK}"),
    ("我的密码是abc12345。", f"我的密码是{MASK}。"),
    ('{"client_secret": "a1b2c3d4e5"}', f'{{"client_secret": "{MASK}"}}'),
    (f"it starts with eyJhbGciOiJI.eyJzdWIiOiIx.{CANARY}", f"it starts with {MASK}"),
    (f"keep {CANARY} safe", f"keep {MASK} safe"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc=\n-----END RSA PRIVATE KEY-----", MASK),
    ("our door PIN: 48213", f"our door PIN: {MASK}"),
]

KEPT = [
    "I take my coffee black.",
    "The token is invalid, the password is wrong.",
    "Fixed in commit 2d4aa7e1c9b8f60d3e5a1b7c9d8e0f1a2b3c4d5e.",
    "Order 123e4567-e89b-12d3-a456-426614174000 arrives on 2024-05-03.",
    "Call me on 18567698882, or write to wangsiqi0222@gzjuzhujianzhu.com.",
    "See https://example.com/docs/AnswersToQuestions/Chapter12/TheLongestPathOfAll",
    "src/shared_core/long_term/VectorsOfMemories2024_final_version.py",
    "My secret is that I love opera.",
    "我的电话号码是18567698882。",
    "The passport office opens at 9:30; the key: be there at 8.",
]


@pytest.mark.parametrize(("text", "masked"), SECRETS)
def test_what_looks_like_a_secret_is_masked(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked


@pytest.mark.parametrize("text", KEPT)
def test_what_people_remember_stays_as_it_is(text: str) -> None:
    assert mask_secrets(text) == text


@given(st.text(alphabet="sk-_=:. Aa1b2PASSWORDisBearer/@[]maed", max_size=120))
def test_masking_twice_changes_nothing_more(text: str) -> None:
    once = mask_secrets(text)
    assert mask_secrets(once) == once


@pytest.mark.parametrize("piece", ["a1B", "sk-", "password=", "Bearer ", "-----BEGIN ", "eyJ.", "://a:", "token is 1 "])
def test_a_long_hostile_text_ends_and_masks_what_stands_behind_it(piece: str) -> None:
    """A pattern whose work grew with the square of the length would not come to an end here."""
    assert mask_secrets(piece * 20_000 + f"\n\n sk-{CANARY}").endswith(f"\n\n {MASK}")


def test_a_secret_never_reaches_the_file_by_remember_or_supersede(tmp_path: Path) -> None:
    with TieredMemory.open(tmp_path / "m.db", embedder="none", default_scope="ada", clock=FakeClock(0.0)) as memory:
        kept = memory.remember(f"The staging key is sk-{CANARY}.")
        assert kept.text == f"The staging key is {MASK}."
        memory.supersede(kept.id, f"The staging key is now sk-{CANARY}x.")
        memory.long_term.flush()
    assert not any(CANARY.encode() in file.read_bytes() for file in tmp_path.iterdir())


def test_a_text_written_again_under_its_id_once_masking_is_on_stands_there_masked(tmp_path: Path) -> None:
    """Same id, same text: no error. What was written before masking was on is masked then, and all else stays."""
    path, text, clock = tmp_path / "m.db", f"The staging key is sk-{CANARY}.", FakeClock(0.0)

    def opened(settings: Settings) -> TieredMemory:
        return TieredMemory.open(path, embedder=HashEmbedder(), default_scope="ada", clock=clock, settings=settings)

    with opened(Settings(mask=None)) as lax, opened(Settings()) as memory:
        before = lax.remember(text, id="1", tags=["t"], subject="key", metadata={"n": None}, importance=0.25)
        lax.remember("tea", id="2")
        assert lax.recall("staging")[0].memory.text == memory.recall("staging")[0].memory.text == text
        clock.advance(10.0)
        assert memory.remember(text, id="1").text == f"The staging key is {MASK}."
        assert memory.remember(text, id="1").text == f"The staging key is {MASK}."
        masked = replace(memory.get("1"), last_accessed=0.0, access_count=0)
        assert masked == replace(before, text=f"The staging key is {MASK}.")
        for one in (lax, memory):
            assert one.recall("staging")[0].memory.text == f"The staging key is {MASK}."
            assert not [hit for hit in one.recall(CANARY) if hit.parts["lexical"]]
        assert memory.check().ok
        with pytest.raises(DuplicateId):
            memory.remember(f"{text} Really.", id="1")
    assert not any(CANARY.encode() in file.read_bytes() for file in tmp_path.iterdir())


def test_what_a_turn_remembers_is_masked_and_its_log_is_verbatim() -> None:
    """The log is what the model is shown again, byte for byte; memories come back in other conversations."""
    with TieredMemory.open(":memory:", embedder="none", default_scope="ada", clock=FakeClock(0.0)) as memory:
        said = {"role": "user", "content": f"Use sk-{CANARY} for staging."}
        (kept,) = memory.turns.end([said], session="s")
        assert kept.text == f"Use {MASK} for staging."
        assert memory.context("s").history() == [said]
        assert CANARY not in str(memory.recall("staging"))


def test_a_text_that_the_prompt_shows_already_is_not_recalled_though_its_memory_is_masked() -> None:
    with TieredMemory.open(":memory:", embedder="none", default_scope="ada", clock=FakeClock(0.0)) as memory:
        memory.remember(f"Use sk-{CANARY} for staging.")
        assert memory.turns.begin("staging", shown_texts=[f"Use sk-{CANARY} for staging."]).hits == ()


def test_the_mask_may_be_another_or_none() -> None:
    loud = Settings(mask=lambda text: text.replace("secret", "***"))
    with TieredMemory.open(":memory:", embedder="none", default_scope="ada", settings=loud) as memory:
        assert memory.remember(f"secret sk-{CANARY}").text == f"*** sk-{CANARY}"
    with TieredMemory.open(":memory:", embedder="none", default_scope="ada", settings=Settings(mask=None)) as memory:
        assert memory.remember(f"sk-{CANARY}").text == f"sk-{CANARY}"


def test_a_mask_that_fails_or_leaves_nothing_lets_nothing_be_written() -> None:
    def fails(text: str) -> str:
        raise ValueError(text)

    for mask in (fails, lambda _: ""):
        with TieredMemory.open(":memory:", embedder="none", default_scope="a", settings=Settings(mask=mask)) as memory:
            with pytest.raises((ValueError, InvalidInput)):
                memory.remember("anything")
            assert memory.long_term.list() == []
