"""Many documents to tokens at once.

What enters is documents with sentence starts; what leaves is flat arrays: ids, word starts, tokens of each sentence.
A long document goes through the tokenizer in windows that end between sentences (or, in a sentence too long, between
words) and begin with the space before them, so the tokens are those of the whole document while memory stays that of
a window; short documents share a call. Only text that writes no spaces must be cut without one, once in a long while.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import sub

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import offsets
from spanlab.corpus.prepare.sentences import Sentences
from spanlab.text import Tokenizer

_WINDOW_CHARACTERS = 1 << 14
_BATCH_CHARACTERS = 1 << 17


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """The tokens of several documents in a row."""

    ids: NDArray[np.uint32]
    """(N,) token ids."""
    word_starts: NDArray[np.bool_]
    """(N,) where words begin."""
    sentence_lengths: NDArray[np.int64]
    """(S,) tokens of each sentence, of all documents in order; 0 where the tokenizer makes nothing of a sentence."""


def encode_documents(tokenizer: Tokenizer, documents: Iterable[Sentences]) -> Encoded:
    """The tokens of documents, one after the other."""
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
    """Where each fragment begins when the texts are laid one after the other."""
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
    """Runs of fragments, as pairs of fragment numbers, each about as long as a window; the next begins with a space."""
    first = 0
    for number in range(1, len(cuts)):
        size = cuts[number] - cuts[first]
        if size >= _WINDOW_CHARACTERS and (text[cuts[number]] == " " or size >= 4 * _WINDOW_CHARACTERS):
            yield first, number
            first = number
    yield first, len(cuts)


def _encode(tokenizer: Tokenizer, batch: _Batch) -> tuple[NDArray[np.uint32], NDArray[np.bool_], NDArray[np.int64]]:
    """Ids, word starts, and tokens of each fragment."""
    table = tokenizer.encode_table(batch.texts)
    sizes = np.fromiter(map(len, batch.texts), np.int64, len(batch.texts))
    # A token belongs to the fragment that holds its last character.
    places = np.repeat(offsets(sizes), table.counts) + np.maximum(table.ends - 1, table.starts)
    owners = np.searchsorted(batch.fragment_starts, np.maximum.accumulate(places), side="right") - 1
    return table.ids, table.word_starts, np.bincount(owners, minlength=len(batch.fragment_starts))
