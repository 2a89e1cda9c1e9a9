"""Many documents to tokens at once, faster than the tokenizer: a word met before is looked up, not tokenised again.

What enters is documents with sentence starts; what leaves is flat arrays: ids, word starts, tokens of each sentence.
Text is cut into entries, each entry's tokens are kept in one flat store, and a batch of documents becomes a list of
entry numbers and one gather. With a tokenizer that never looks across a space an entry is a word, tokenised once;
with any other tokenizer, and in text whose sentences follow each other without a space (Chinese), an entry is a
sentence, tokenised in place. Both ways give the tokens that the tokenizer gives for the whole document; the store is
emptied when it has grown, so memory stays bounded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import sub

import numpy as np
from numpy.typing import NDArray

from spanlab.corpus.ragged import flat_ranges
from spanlab.corpus.sentences import Sentences
from spanlab.text import Tokenizer, Tokens

_TEXT_CHARACTERS = 1 << 14
"""Texts given to the tokenizer at once are about this long: long enough to hide the cost of a call."""
_TEXTS_AT_ONCE = 16
_STORE_ENTRIES = 1 << 18
_STORE_TOKENS = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """The tokens of several documents in a row."""

    ids: NDArray[np.uint32]
    """(N,) token ids."""
    word_starts: NDArray[np.bool_]
    """(N,) where words begin."""
    sentence_lengths: NDArray[np.int64]
    """(S,) tokens of each sentence, of all documents in order; 0 where the tokenizer makes nothing of a sentence."""


class BulkEncoder:
    """Encodes documents; remembers words between calls."""

    def __init__(self, tokenizer: Tokenizer, *, separable: bool) -> None:
        self._tokenizer, self._separable = tokenizer, separable
        self._forget()

    def _forget(self) -> None:
        self._pending = _Pending()
        self._words = _Words(self._pending, " ")
        self._first_words = _Words(self._pending, "")
        self._ids = np.zeros(0, np.uint32)
        self._word_starts = np.zeros(0, np.bool_)
        self._firsts = np.zeros(1, np.int64)  # (entries + 1,) where each entry's tokens begin in the store

    def encode(self, documents: Sequence[Sentences]) -> Encoded:
        """The tokens of documents, one after the other."""
        if len(self._firsts) > _STORE_ENTRIES or len(self._ids) > _STORE_TOKENS:
            self._forget()
        entries: list[int] = []
        counts: list[int] = []  # entries of each fragment
        opens: list[bool] = []  # whether a fragment begins a sentence
        for document in documents:
            starts = _fragment_starts(document)
            sentences = set(document.starts)
            opens.extend([start in sentences for start in starts])
            if self._separable and all(document.text[start - 1] == " " for start in starts[1:]):
                self._add_words(document.text, starts, entries, counts)
            else:
                self._add_fragments(document.text, starts, entries, counts)
        self._settle()
        return self._gather(entries, counts, opens)

    def _add_words(self, text: str, starts: list[int], entries: list[int], counts: list[int]) -> None:
        for first, last in _windows(starts):
            window = text[starts[first] : starts[last] if last < len(starts) else len(text)]
            words = window.split(" ")
            if last < len(starts):
                words.pop()  # the window ends in the space before the next sentence
            if first == 0:
                entries.append(self._first_words[words[0]])
                del words[0]
            entries.extend(map(self._words.__getitem__, words))
        ends = [*starts[1:], len(text)]
        counts.extend([text.count(" ", start, end) for start, end in zip(starts, ends, strict=True)])
        counts[-1] += 1

    def _add_fragments(self, text: str, starts: list[int], entries: list[int], counts: list[int]) -> None:
        for first, last in _windows(starts):
            for number in range(first, last):
                start = starts[number]
                spaced = start > 0 and text[start - 1] == " "
                end = starts[number + 1] if number + 1 < len(starts) else len(text)
                string = " " * spaced + text[start:end].rstrip(" ")
                entries.append(self._pending.add(string, joins=number > first))
        counts.extend([1] * len(starts))

    def _settle(self) -> None:
        """Tokenise what is new and put its tokens into the store, in the order of entry numbers."""
        texts, string_starts = self._pending.take()
        if not texts:
            return
        tokens: list[Tokens] = []
        for first in range(0, len(texts), _TEXTS_AT_ONCE):
            tokens.extend(self._tokenizer.encode_batch(texts[first : first + _TEXTS_AT_ONCE]))
        text_starts = np.cumsum([0, *map(len, texts)])
        # A token belongs to the string that holds its last character.
        places = np.concatenate(
            [start + np.maximum(t.ends - 1, t.starts) for start, t in zip(text_starts, tokens, strict=False)]
        )
        owners = np.searchsorted(string_starts, np.maximum.accumulate(places), side="right") - 1
        lengths = np.bincount(owners, minlength=len(string_starts))
        self._firsts = np.concatenate((self._firsts, self._firsts[-1] + np.cumsum(lengths)))
        self._ids = np.concatenate((self._ids, *[t.ids for t in tokens]))
        self._word_starts = np.concatenate((self._word_starts, *[t.word_starts for t in tokens]))

    def _gather(self, entries: list[int], counts: list[int], opens: list[bool]) -> Encoded:
        if not entries:
            return Encoded(
                ids=np.zeros(0, np.uint32), word_starts=np.zeros(0, np.bool_), sentence_lengths=np.zeros(0, np.int64)
            )
        numbers = np.array(entries, dtype=np.int64)
        firsts = self._firsts[numbers]
        lengths = self._firsts[numbers + 1] - firsts
        places = flat_ranges(firsts, lengths)
        fragment_firsts = np.cumsum([0, *counts[:-1]])
        sentence_firsts = fragment_firsts[np.flatnonzero(opens)]
        return Encoded(
            ids=self._ids[places],
            word_starts=self._word_starts[places],
            sentence_lengths=np.add.reduceat(lengths, sentence_firsts),
        )


class _Pending:
    """Strings that wait for the tokenizer, numbered as entries of the store, joined into texts of a good length."""

    def __init__(self) -> None:
        self._settled = 0
        self._strings: list[str] = []
        self._text_firsts: list[int] = []
        self._text_size = 0

    def add(self, string: str, *, joins: bool) -> int:
        """The entry number of a new string; one that `joins` follows the string before it in the same text."""
        if not joins or not self._strings:
            self._text_firsts.append(len(self._strings))
            self._text_size = 0
        self._strings.append(string)
        self._text_size += len(string)
        return self._settled + len(self._strings) - 1

    def add_word(self, word: str, before: str) -> int:
        """The entry number of a new word: after a space it may follow anything, else it begins a text."""
        return self.add(before + word, joins=before == " " and self._text_size < _TEXT_CHARACTERS)

    def take(self) -> tuple[list[str], NDArray[np.int64]]:
        """The texts, and where each string begins in the texts put one after the other."""
        strings, firsts = self._strings, [*self._text_firsts, len(self._strings)]
        texts = ["".join(strings[first:last]) for first, last in zip(firsts, firsts[1:], strict=False)]
        starts = np.cumsum([0, *map(len, strings)])[:-1]
        self._settled += len(strings)
        self._strings, self._text_firsts, self._text_size = [], [], 0
        return texts, starts


class _Words(dict[str, int]):
    """Entry numbers of words; a word not met before is put among the pending."""

    def __init__(self, pending: _Pending, before: str) -> None:
        super().__init__()
        self._pending, self._before = pending, before

    def __missing__(self, word: str) -> int:
        number = self[word] = self._pending.add_word(word, self._before)
        return number


def _fragment_starts(document: Sentences) -> list[int]:
    """Sentence starts, and more of them inside sentences too long for one call of the tokenizer."""
    ends = [*document.starts[1:], len(document.text)]
    if max(map(sub, ends, document.starts)) <= _TEXT_CHARACTERS:
        return document.starts
    starts: list[int] = []
    for start, end in zip(document.starts, ends, strict=True):
        starts.append(start)
        while end - starts[-1] > _TEXT_CHARACTERS:
            limit = starts[-1] + _TEXT_CHARACTERS
            space = document.text.rfind(" ", starts[-1] + 1, limit)
            starts.append(space + 1 if space > 0 else limit)
    return starts


def _windows(starts: list[int]) -> list[tuple[int, int]]:
    """Runs of fragments, as pairs of fragment numbers, each about as long as one text."""
    windows, first = [], 0
    for number in range(1, len(starts)):
        if starts[number] - starts[first] >= _TEXT_CHARACTERS:
            windows.append((first, number))
            first = number
    windows.append((first, len(starts)))
    return windows
