"""The settings of a preparation: everything that shapes a corpus, beside its input and its tokenizer.

They are recorded in the manifest, so a corpus says how it was made.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from spanlab.config import AtLeast, AtMost, Bounded
from spanlab.errors import ConfigError
from spanlab.text.words import SegmenterName

Documents = Literal["file", "blank-line", "line"]
"""What separates the documents of a .txt file."""
Lines = Literal["wrapped", "sentences", "paragraphs"]
"""What a line break means inside a document: a space (and a blank line ends a paragraph), the end of a sentence, or the
end of a paragraph."""
ErrorHandling = Literal["strict", "replace"]
"""Bytes that are not UTF-8 are an error, or become U+FFFD and are counted."""


@dataclass(frozen=True, kw_only=True)
class PrepareConfig(Bounded):
    """How text becomes documents, sentences and tokens, and how much of it goes together."""

    documents: Documents | None = None
    """None: detected by `plan_preparation`."""
    lines: Lines | None = None
    """None: detected by `plan_preparation`."""
    text_field: str = "text"
    """Key of a .jsonl file, or column of a table, that holds the text."""
    language: str | None = None
    """Language for sentence boundaries; None: by the script."""
    segmenter: SegmenterName | None = None
    """What finds the words of Chinese text; None: each Han character is a word."""
    min_tokens: Annotated[int, AtLeast(1)] = 1
    """Shorter documents are dropped."""
    errors: ErrorHandling = "strict"
    shard_tokens: Annotated[int, AtLeast(1)] = 1 << 27
    """A shard is closed after the segments that reach this many tokens."""
    segment_bytes: Annotated[int, AtLeast(1), AtMost(1 << 30)] = 4 << 20
    """A segment ends at the first document end after this many bytes."""
    document_bytes: Annotated[int, AtLeast(1), AtMost(1 << 30)] = 16 << 20
    """A longer document of a .txt file is cut (and counted as cut), which bounds memory."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shard_tokens + self.document_bytes >= 1 << 32:
            raise ConfigError(f"'shard_tokens' is {self.shard_tokens}; token offsets in a shard are 32-bit integers")
