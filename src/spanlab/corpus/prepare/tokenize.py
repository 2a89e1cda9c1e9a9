"""Segments to token arrays: documents are split into sentences, tokenized in large batches, and laid end to end.

`tokenize_segments` is the function every engine runs, in this process, in a local worker or on a cluster. Its result
depends on the segments, the settings and the tokenizer alone.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import sub

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Flags, Integers, offsets
from spanlab.corpus.prepare.config import Lines, PrepareConfig
from spanlab.corpus.prepare.documents import BLANK_LINE, documents_of
from spanlab.corpus.prepare.segments import SegmentGroup
from spanlab.errors import InputError
from spanlab.text import Tokenizer, sentence_spans
from spanlab.text.words import SegmenterName, load_segmenter

_HAN = r"[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]"
_HAN_BREAK = re.compile(rf"(?<={_HAN})[ \t\r]*\n\s*(?={_HAN})")
_WINDOW_CHARACTERS = 1 << 14
_BATCH_CHARACTERS = 1 << 17
DIGEST = np.dtype("S16")
"""A document's 128-bit fingerprint. Numpy's byte strings ignore trailing zeros, which keeps equal-length ones apart."""


# Documents to sentences.


@dataclass(frozen=True)
class Sentences:
    """A document's text without line breaks, and where its sentences start in it."""

    text: str
    starts: list[int]


def sentences_of(document: str, *, lines: Lines, language: str | None) -> Sentences:
    """The document as one line, with its sentence starts."""
    texts, starts, offset = [], [], 0
    for paragraph in _paragraphs(document, lines):
        if lines == "sentences":
            starts.append(offset)
        else:
            starts.extend(offset + start for start, _ in sentence_spans(paragraph, language))
        texts.append(paragraph)
        offset += len(paragraph) + 1
    return Sentences(" ".join(texts), starts)


def _paragraphs(document: str, lines: Lines) -> Iterator[str]:
    if lines == "wrapped":
        if not document.isascii():
            document = _HAN_BREAK.sub(lambda match: match[0] if match[0].count("\n") > 1 else "", document)
        parts = BLANK_LINE.split(document)
    else:
        parts = document.split("\n")
    for part in parts:
        if paragraph := " ".join(part.split()):
            yield paragraph


# Sentences to tokens.


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """The tokens of several documents in a row."""

    ids: NDArray[np.uint32]
    """(N,) token ids."""
    word_starts: Flags
    """(N,) where words begin."""
    sentence_lengths: Integers
    """(S,) tokens of each sentence, of all documents in order; 0 where a sentence has no tokens."""


def encode_documents(tokenizer: Tokenizer, documents: Iterable[Sentences]) -> Encoded:
    """The tokens of documents, end to end."""
    ids, word_starts = [np.zeros(0, np.uint32)], [np.zeros(0, np.bool_)]
    fragment_lengths, opens = [np.zeros(0, np.int64)], []
    for batch in _batches(documents):
        batch_ids, batch_words, lengths = _encode(tokenizer, batch)
        ids.append(batch_ids)
        word_starts.append(batch_words)
        fragment_lengths.append(lengths)
        opens.extend(batch.opens)
    return Encoded(
        ids=np.concatenate(ids),
        word_starts=np.concatenate(word_starts),
        sentence_lengths=np.add.reduceat(np.concatenate(fragment_lengths), np.flatnonzero(opens)),
    )


@dataclass
class _Batch:
    """Texts for one call of the tokenizer, made of fragments: sentences, or parts of a very long one."""

    texts: list[str] = field(default_factory=list)
    fragment_starts: list[int] = field(default_factory=list)
    """Where each fragment begins when the texts are laid end to end."""
    opens: list[bool] = field(default_factory=list)
    """Whether a fragment begins a sentence."""
    size: int = 0

    def add(self, text: str, cuts: Sequence[int], opens: Sequence[bool]) -> None:
        """Add a text whose fragments begin at `cuts`, the first of which is where the text begins."""
        shift = self.size - cuts[0]
        self.fragment_starts.extend([cut + shift for cut in cuts])
        self.opens.extend(opens)
        self.texts.append(text)
        self.size += len(text)


def _batches(documents: Iterable[Sentences]) -> Iterator[_Batch]:
    batch = _Batch()
    for document in documents:
        cuts, opens = _fragments(document)
        for first, last in _windows(document.text, cuts):
            end = cuts[last] if last < len(cuts) else len(document.text)
            batch.add(document.text[cuts[first] : end], cuts[first:last], opens[first:last])
            if batch.size >= _BATCH_CHARACTERS:
                yield batch
                batch = _Batch()
    if batch.texts:
        yield batch


def _fragments(document: Sentences) -> tuple[list[int], list[bool]]:
    """Where fragments begin, each with the space before it, and whether they begin a sentence."""
    text = document.text
    cuts = [start - (start > 0 and text[start - 1] == " ") for start in document.starts]
    ends = [*cuts[1:], len(text)]
    if max(map(sub, ends, cuts)) <= _WINDOW_CHARACTERS:
        return cuts, [True] * len(cuts)
    pieces: list[int] = []
    opens: list[bool] = []
    for cut, end in zip(cuts, ends, strict=True):
        pieces.append(cut)
        opens.append(True)
        while end - pieces[-1] > _WINDOW_CHARACTERS:
            limit = pieces[-1] + _WINDOW_CHARACTERS
            space = text.rfind(" ", pieces[-1] + 1, limit)
            pieces.append(space if space > 0 else limit)
            opens.append(False)
    return pieces, opens


def _windows(text: str, cuts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(first, last) fragments of windows, each of about _WINDOW_CHARACTERS; the next begins with a space."""
    first = 0
    for index in range(1, len(cuts)):
        size = cuts[index] - cuts[first]
        if size >= _WINDOW_CHARACTERS and (text[cuts[index]] == " " or size >= 4 * _WINDOW_CHARACTERS):
            yield first, index
            first = index
    yield first, len(cuts)


def _encode(tokenizer: Tokenizer, batch: _Batch) -> tuple[NDArray[np.uint32], Flags, Integers]:
    """Ids, word starts, and tokens of each fragment."""
    table = tokenizer.encode_table(batch.texts)
    sizes = np.fromiter(map(len, batch.texts), np.int64, len(batch.texts))
    # A token belongs to the fragment that holds its last character.
    last_characters = np.repeat(offsets(sizes), table.counts) + np.maximum(table.ends - 1, table.starts)
    fragments = np.searchsorted(batch.fragment_starts, np.maximum.accumulate(last_characters), side="right") - 1
    return table.ids, table.word_starts, np.bincount(fragments, minlength=len(batch.fragment_starts))


# Segments to arrays.


@dataclass(frozen=True, kw_only=True)
class TokenizedDocuments:
    """D documents of S sentences and N tokens, as arrays."""

    ids: NDArray[np.unsignedinteger]
    """(N,) in the type of the shards."""
    word_starts: Flags
    """(N,)"""
    sentence_lengths: Integers
    """(S,) in tokens, none of them 0."""
    document_sentences: Integers
    """(D,) sentences of each document."""
    document_lengths: Integers
    """(D,) tokens of each document."""
    document_bytes: Integers
    """(D,) UTF-8 bytes of each document, white space runs counted as one."""
    digests: NDArray[np.bytes_]
    """(D,) fingerprints of the texts, by which duplicates are found."""
    short: int
    """Documents left out because they had too few tokens."""
    cut: int
    """Documents cut because they were too long."""
    replaced: int
    """Byte sequences that were not UTF-8 and were replaced."""

    def select(self, keep: Flags) -> "TokenizedDocuments":
        """Only the documents where `keep` (D,) is True."""
        if keep.all():
            return self
        tokens = np.repeat(keep, self.document_lengths)
        sentences = np.repeat(keep, self.document_sentences)
        return TokenizedDocuments(
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
    """The smaller of the two token types of shards that holds every id."""
    return np.dtype("<u2") if vocab_size <= 1 << 16 else np.dtype("<u4")


def tokenize_segments(
    segments: SegmentGroup, config: PrepareConfig, tokenizer_folder: str, fingerprint: str
) -> TokenizedDocuments:
    """The documents of a group of segments; the tokenizer's folder must have the same path on every worker."""
    assert config.lines is not None
    tokenizer = _load_tokenizer(tokenizer_folder, fingerprint, config.segmenter)
    documents: list[Sentences] = []
    replaced = 0
    for segment in segments:
        texts, invalid = documents_of(segment, config)
        replaced += invalid
        split = (sentences_of(text, lines=config.lines, language=config.language) for text in texts)
        documents.extend(document for document in split if document.starts)
    return _to_arrays(
        documents,
        tokenizer,
        min_tokens=config.min_tokens,
        cut=sum(segment.cut for segment in segments),
        replaced=replaced,
    )


@lru_cache(maxsize=1)
def _load_tokenizer(folder: str, fingerprint: str, segmenter: SegmenterName | None) -> Tokenizer:
    """Cached, so that a worker keeps its tokenizer, and with it the cache of words."""
    tokenizer = Tokenizer.load(folder, segmenter=load_segmenter(segmenter) if segmenter else None)
    if tokenizer.fingerprint != fingerprint:
        raise InputError("the tokenizer changed while the corpus was being prepared", path=folder)
    return tokenizer


def _to_arrays(
    documents: list[Sentences], tokenizer: Tokenizer, *, min_tokens: int, cut: int, replaced: int
) -> TokenizedDocuments:
    encoded = encode_documents(tokenizer, documents)
    sentence_documents = np.repeat(np.arange(len(documents)), [len(document.starts) for document in documents])
    lengths = np.bincount(sentence_documents, encoded.sentence_lengths, len(documents)).astype(np.int64)
    non_empty = encoded.sentence_lengths > 0
    texts = [document.text.encode() for document in documents]
    arrays = TokenizedDocuments(
        ids=encoded.ids.astype(token_dtype(tokenizer.vocab_size)),
        word_starts=encoded.word_starts,
        sentence_lengths=encoded.sentence_lengths[non_empty],
        document_sentences=np.bincount(sentence_documents[non_empty], minlength=len(documents)),
        document_lengths=lengths,
        document_bytes=np.fromiter(map(len, texts), np.int64, len(texts)),
        digests=_digests(texts),
        short=0,
        cut=cut,
        replaced=replaced,
    )
    long_enough = lengths >= max(1, min_tokens)
    return replace(arrays.select(long_enough), short=int(np.count_nonzero(~long_enough)))


def _digests(texts: Iterable[bytes]) -> NDArray[np.bytes_]:
    return np.array([hashlib.blake2b(text, digest_size=16).digest() for text in texts], dtype=DIGEST)
