"""Text to tokens: tokenizers, word and sentence boundaries, windows, and the file formats of tagged text. No tensors.

The names below are imported when first used.
"""

from typing import TYPE_CHECKING

from spanlab.lazy_imports import lazy_names

if TYPE_CHECKING:
    from spanlab.text.sentences import sentence_spans
    from spanlab.text.tokenizer import Tokenizer, check_model_case
    from spanlab.text.tokens import Tokens
    from spanlab.text.train import TokenizerConfig, train_tokenizer
    from spanlab.text.words import word_spans

__all__ = [
    "Tokenizer",
    "TokenizerConfig",
    "Tokens",
    "check_model_case",
    "sentence_spans",
    "train_tokenizer",
    "word_spans",
]

_MODULES = {
    "Tokenizer": "tokenizer",
    "TokenizerConfig": "train",
    "Tokens": "tokens",
    "check_model_case": "tokenizer",
    "sentence_spans": "sentences",
    "train_tokenizer": "train",
    "word_spans": "words",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
