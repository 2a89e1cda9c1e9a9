"""Words as characters, in ELMo's numbering, for its character network.

What enters is words; what leaves is a row of numbers for each: a mark for the beginning of a word, the bytes of its
UTF-8 form, a mark for its end, padding. A word outside the vocabulary keeps its characters this way.
"""

from collections.abc import Sequence

import numpy as np

SENTENCE_BEGIN, SENTENCE_END, WORD_BEGIN, WORD_END, PADDING = 256, 257, 258, 259, 260
CHARACTERS = 261
"""How many numbers there are: 256 bytes and the five marks."""


def word_characters(words: Sequence[str], *, width: int = 50) -> np.ndarray:
    """(N, width) uint16 numbers of each word; bytes beyond `width - 2` are cut off, as in ELMo."""
    rows = np.full((len(words), width), PADDING, dtype=np.uint16)
    rows[:, 0] = WORD_BEGIN
    spelled = [word.encode("utf-8")[: width - 2] for word in words]
    lengths = np.fromiter(map(len, spelled), np.int64, len(spelled))
    columns = np.arange(width - 2)
    rows[:, 1:-1][columns < lengths[:, None]] = np.frombuffer(b"".join(spelled), dtype=np.uint8)
    rows[np.arange(len(words)), lengths + 1] = WORD_END
    return rows


def vocabulary_characters(vocabulary: Sequence[str], *, width: int = 50) -> np.ndarray:
    """(V, width) the row of each id; <S> and </S> have the marks of a sentence instead of letters."""
    rows = word_characters(vocabulary, width=width)
    for token, mark in (("<S>", SENTENCE_BEGIN), ("</S>", SENTENCE_END)):
        if token in vocabulary:
            row = rows[vocabulary.index(token)]
            row[:] = PADDING
            row[:3] = WORD_BEGIN, mark, WORD_END
    return rows
