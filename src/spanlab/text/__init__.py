"""Text to tokens: documents, tokenizers, word and sentence boundaries, windows. No tensors here.

The names below are the room's face. They are imported when first used: `tokenizers` is loaded only by what needs it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spanlab.text.documents import Document
    from spanlab.text.sentences import line_spans, sentence_spans
    from spanlab.text.tokenizer import Tokenizer
    from spanlab.text.tokens import Tokens
    from spanlab.text.words import Segmenter, word_spans

__all__ = ["Document", "Segmenter", "Tokenizer", "Tokens", "line_spans", "sentence_spans", "word_spans"]

_HOMES = {
    "Document": "spanlab.text.documents",
    "Segmenter": "spanlab.text.words",
    "Tokenizer": "spanlab.text.tokenizer",
    "Tokens": "spanlab.text.tokens",
    "line_spans": "spanlab.text.sentences",
    "sentence_spans": "spanlab.text.sentences",
    "word_spans": "spanlab.text.words",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 (any public name)
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'spanlab.text' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
