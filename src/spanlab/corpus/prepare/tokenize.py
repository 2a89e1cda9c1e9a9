"""A task's segments become a part: the flat arrays of its documents, ready to be written in the order of tasks.

This is the function that every engine runs, in this process, in a local worker or on a cluster. It depends on the
task and the settings alone.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from spanlab.corpus.prepare.documents import ErrorHandling, documents_of
from spanlab.corpus.prepare.encoding import encode_documents
from spanlab.corpus.prepare.layout import Layout
from spanlab.corpus.prepare.segments import Task
from spanlab.corpus.prepare.sentences import Sentences, sentences_of
from spanlab.errors import InputError
from spanlab.text import Tokenizer

DIGEST = np.dtype("S16")
"""A document's 128-bit fingerprint. Numpy's byte strings ignore trailing zeros, which keeps equal-length ones apart."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What turns text into tokens, beside the text itself."""

    tokenizer: str
    """Folder of the tokenizer; every worker must see it under this path."""
    fingerprint: str
    layout: Layout
    field: str = "text"
    errors: ErrorHandling = "strict"
    language: str | None = None
    min_tokens: int = 1


@dataclass(frozen=True, kw_only=True)
class Part:
    """The documents of one task: D documents of S sentences and N tokens."""

    ids: NDArray[np.unsignedinteger]
    """(N,) in the type of the shards."""
    word_starts: NDArray[np.bool_]
    """(N,)"""
    sentence_lengths: NDArray[np.int64]
    """(S,) in tokens, none of them 0."""
    document_sentences: NDArray[np.int64]
    """(D,) sentences of each document."""
    document_lengths: NDArray[np.int64]
    """(D,) tokens of each document."""
    document_bytes: NDArray[np.int64]
    """(D,) UTF-8 bytes of each document, white space runs counted as one."""
    digests: NDArray[np.bytes_]
    """(D,) fingerprints by which duplicates are found."""
    short: int
    """Documents left out because they had too few tokens."""
    cut: int
    """Documents cut because they were too long."""
    replaced: int
    """Byte sequences that were not UTF-8 and were replaced."""

    def select(self, keep: NDArray[np.bool_]) -> "Part":
        """The part with only the documents where `keep` (D,) is True."""
        if keep.all():
            return self
        tokens = np.repeat(keep, self.document_lengths)
        sentences = np.repeat(keep, self.document_sentences)
        return Part(
            ids=self.ids[tokens],
            word_starts=self.word_starts[tokens],
            sentence_lengths=self.sentence_lengths[sentences],
            document_sentences=self.document_sentences[keep],
            document_lengths=self.document_lengths[keep],
            document_bytes=self.document_bytes[keep],
            digests=self.digests[keep],
            short=self.short,
            cut=self.cut,
            replaced=self.replaced,
        )


def token_dtype(vocab_size: int) -> np.dtype[np.unsignedinteger]:
    """The smallest type of the shards that holds every id."""
    return np.dtype("<u2") if vocab_size <= 1 << 16 else np.dtype("<u4")


def tokenise(task: Task, settings: Settings) -> Part:
    """The part of a task."""
    tokenizer = _load_tokenizer(settings.tokenizer, settings.fingerprint)
    documents: list[Sentences] = []
    replaced = 0
    for segment in task:
        texts, wrong = documents_of(
            segment, documents=settings.layout.documents, field=settings.field, errors=settings.errors
        )
        replaced += wrong
        found = (sentences_of(text, lines=settings.layout.lines, language=settings.language) for text in texts)
        documents.extend(document for document in found if document.starts)
    return _part(
        documents,
        tokenizer,
        min_tokens=settings.min_tokens,
        cut=sum(segment.cut for segment in task),
        replaced=replaced,
    )


@lru_cache(maxsize=1)
def _load_tokenizer(folder: str, fingerprint: str) -> Tokenizer:
    """A worker keeps its tokenizer, and with it the words it has met."""
    tokenizer = Tokenizer.load(folder)
    if tokenizer.fingerprint != fingerprint:
        raise InputError("the tokenizer changed while the corpus was being prepared", path=folder)
    return tokenizer


def _part(documents: list[Sentences], tokenizer: Tokenizer, *, min_tokens: int, cut: int, replaced: int) -> Part:
    encoded = encode_documents(tokenizer, documents)
    sentence_owners = np.repeat(np.arange(len(documents)), [len(document.starts) for document in documents])
    lengths = np.bincount(sentence_owners, encoded.sentence_lengths, len(documents)).astype(np.int64)
    there = encoded.sentence_lengths > 0
    texts = [document.text.encode() for document in documents]
    part = Part(
        ids=encoded.ids.astype(token_dtype(tokenizer.vocab_size)),
        word_starts=encoded.word_starts,
        sentence_lengths=encoded.sentence_lengths[there],
        document_sentences=np.bincount(sentence_owners[there], minlength=len(documents)),
        document_lengths=lengths,
        document_bytes=np.fromiter(map(len, texts), np.int64, len(texts)),
        digests=_digests(texts),
        short=0,
        cut=cut,
        replaced=replaced,
    )
    long_enough = lengths >= max(1, min_tokens)
    return replace(part.select(long_enough), short=int(np.count_nonzero(~long_enough)))


def _digests(texts: Iterable[bytes]) -> NDArray[np.bytes_]:
    return np.array([hashlib.blake2b(text, digest_size=16).digest() for text in texts], dtype=DIGEST)
