"""The encodings of `tokenizers` as arrays, with word starts found by character offsets.

What enters is a batch of texts and their encodings; what leaves is one `TokenTable`. Word starts do not come from the
vocabulary: "##", "Ġ" and "▁" are conventions of one tokenizer each, and wrong for Chinese, for an emoji made of byte
tokens and for the lone "▁". A token begins a word if its first character is in another word than the last character of
the token before it.

Three corrections make the offsets those of the user's text: a leading space is excluded ("Ġword" covers "word"); a
combining mark that the normalizer removed, or a lone Korean letter that it merged into the syllable before, belongs to
the token before it; a token of space alone is a word, except a single space just before a word, which belongs to that
word.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from spanlab.arrays import offsets
from spanlab.text.tokens import TokenTable
from spanlab.text.words import MARK, SPACE, Segmenter, character_classes, code_points, word_begins

SEPARATOR = "\n"
"""Joins texts that are processed as one string: it ends words and is part of none."""
LETTERS = (0x3131, 0x318E)
"""Korean letters written alone: NFKC makes one syllable of two, which `tokenizers` then places at the first."""


def join(texts: Sequence[str]) -> str:
    """The texts as one string, with a separator after each."""
    return SEPARATOR.join((*texts, ""))


def text_bases(texts: Sequence[str]) -> np.ndarray:
    """(B + 1,) where each text begins in the joined string, and its length."""
    return np.cumsum([0] + [len(text) + 1 for text in texts])


def align(texts: Sequence[str], encodings: Sequence[Any], segmenter: Segmenter | None = None) -> TokenTable:
    """The encodings of `texts` as one table, with starts and ends corrected and word starts found."""
    counts = np.fromiter((len(encoding) for encoding in encodings), np.int64, len(encodings))
    total = int(counts.sum())
    ids = np.fromiter(chain.from_iterable(encoding.ids for encoding in encodings), np.uint32, total)
    pairs = chain.from_iterable(chain.from_iterable(encoding.offsets for encoding in encodings))
    spans = np.fromiter(pairs, np.int64, 2 * total).reshape(total, 2)
    bases = np.repeat(text_bases(texts)[:-1], counts)
    starts, ends = spans[:, 0] + bases, spans[:, 1] + bases
    first_tokens = offsets(counts)[counts > 0]
    starts, ends, word_starts = _find_words(join(texts), starts, ends, first_tokens, segmenter)
    return TokenTable(
        ids=ids,
        starts=(starts - bases).astype(np.int32),
        ends=(ends - bases).astype(np.int32),
        word_starts=word_starts,
        counts=counts,
    )


def _find_words(
    text: str, starts: np.ndarray, ends: np.ndarray, first_tokens: np.ndarray, segmenter: Segmenter | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts and ends corrected, and (N,) bool word starts."""
    if not len(starts):
        return starts, ends, np.zeros(0, dtype=bool)
    codes = code_points(text)
    classes = character_classes(codes)
    begins = word_begins(text, classes, segmenter)
    words = np.cumsum(begins)  # the index of the word of each character; a space belongs to the word before it
    spaces = (classes & SPACE) != 0
    trimmed = _without_leading_space(starts, ends, begins, words, spaces)
    joinable = ((classes & MARK) != 0) | ((codes >= LETTERS[0]) & (codes <= LETTERS[1]))
    if joinable.any():
        ends = _with_joined_characters(starts, ends, joinable)
    last_characters = np.maximum(ends - 1, trimmed)
    word_starts = np.empty(len(starts), dtype=bool)
    word_starts[1:] = words[trimmed[1:]] != words[last_characters[:-1]]
    blank = spaces[trimmed]
    if blank.any():
        word_starts |= blank
        lone = blank[:-1] & ~blank[1:] & (ends[:-1] == starts[1:]) & (codes[last_characters[:-1]] == ord(" "))
        word_starts[1:] &= ~(lone & ~spaces[starts[1:]])
    word_starts[first_tokens] = True
    return trimmed, ends, word_starts


def _without_leading_space(
    starts: np.ndarray, ends: np.ndarray, begins: np.ndarray, words: np.ndarray, spaces: np.ndarray
) -> np.ndarray:
    """The starts moved to the first character that is not space; unchanged for a token of space alone."""
    if not spaces[starts].any():
        return starts
    beginnings = np.append(np.flatnonzero(begins), len(begins))  # a character after space begins a word
    following = beginnings[words[starts]]
    return np.where(spaces[starts] & (following < ends), following, starts)


def _with_joined_characters(starts: np.ndarray, ends: np.ndarray, joinable: np.ndarray) -> np.ndarray:
    """The ends extended over `joinable` characters that no token covers."""
    count = len(joinable)
    bases = np.where(np.append(~joinable, True), np.arange(count + 1), count)
    next_base = np.minimum.accumulate(bases[::-1])[::-1]
    next_starts = np.append(starts[1:], count)
    moved: np.ndarray = np.maximum(ends, np.minimum(next_base[ends], next_starts))
    return moved
