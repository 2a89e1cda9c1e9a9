"""Text to tokens: documents, tokenizers, word and sentence boundaries, windows. No tensors here.

The names below are the room's face. They are imported when first used: `tokenizers` is loaded only by what needs it.
"""

from typing import TYPE_CHECKING

from spanlab.lazy_imports import lazy_names

if TYPE_CHECKING:
    from spanlab.text.documents import Document
    from spanlab.text.sentences import line_spans, sentence_spans
    from spanlab.text.tokenizer import Tokenizer, check_model_case
    from spanlab.text.tokens import Tokens
    from spanlab.text.train import TokenizerConfig, train_tokenizer
    from spanlab.text.windows import Window, cut_windows, merge_best, merge_mean
    from spanlab.text.words import Segmenter, word_spans

__all__ = [
    "Document",
    "Segmenter",
    "Tokenizer",
    "TokenizerConfig",
    "Tokens",
    "Window",
    "check_model_case",
    "cut_windows",
    "line_spans",
    "merge_best",
    "merge_mean",
    "sentence_spans",
    "train_tokenizer",
    "word_spans",
]

_HOMES = {
    "Document": "documents",
    "Segmenter": "words",
    "Tokenizer": "tokenizer",
    "TokenizerConfig": "train",
    "Tokens": "tokens",
    "Window": "windows",
    "check_model_case": "tokenizer",
    "cut_windows": "windows",
    "line_spans": "sentences",
    "merge_best": "windows",
    "merge_mean": "windows",
    "sentence_spans": "sentences",
    "train_tokenizer": "train",
    "word_spans": "words",
}


__getattr__, __dir__ = lazy_names(__name__, _HOMES)
