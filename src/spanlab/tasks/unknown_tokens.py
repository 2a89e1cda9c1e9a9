"""Texts that a tokenizer does not know: a tally, and the remark that reports it.

A text in another language, script or case than the model's turns into unknown tokens, and the model answers as if
nothing were wrong. Samples enter by example; what leaves is one line, if any text is unknown for more than a tenth.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from spanlab.errors import clip_repr
from spanlab.tasks.formats.row import Row
from spanlab.tasks.sample import Sample
from spanlab.text.tokenizer import Tokenizer

MAX_SHARE = 0.1
"""Texts with a higher share of unknown tokens are reported."""
_KNOWN, _UNKNOWN, _SPECIAL = range(3)


class UnknownTokens:
    """Counts texts, and those that are unknown for more than a tenth."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._kinds_V = np.full(tokenizer.vocab_size, _KNOWN)
        self._kinds_V[list(tokenizer.special_ids)] = _SPECIAL
        others = {tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id}
        if tokenizer.unk_id is not None and tokenizer.unk_id not in others:  # GPT-2's is its separator
            self._kinds_V[tokenizer.unk_id] = _UNKNOWN
        self._texts = self._reported = 0
        self._first = ""

    def add(self, text: str, ids: Iterable[np.ndarray]) -> None:
        """Count a text by the ids of its sequences."""
        kinds = np.concatenate([np.zeros(0, np.int64), *(self._kinds_V[part] for part in ids)])
        unknown = int((kinds == _UNKNOWN).sum())
        tokens = int((kinds != _SPECIAL).sum())
        self._texts += 1
        if unknown > MAX_SHARE * tokens:
            self._reported += 1
            self._first = self._first or f"{clip_repr(text)} is unknown in {unknown} of {tokens} tokens"

    def add_rows(self, rows: Sequence[Row], samples: Iterable[Sample]) -> None:
        """Count the texts of rows by their samples."""
        ids: list[list[np.ndarray]] = [[] for _ in rows]
        for sample in samples:
            ids[sample.example] += [sequence.ids for sequence in sample.sequences]
        for row, parts in zip(rows, ids, strict=True):
            self.add(max(map(_text_of, row.values.values()), key=len, default=""), parts)

    @property
    def remarks(self) -> tuple[str, ...]:
        """One line for the user; none if every text is known."""
        if not self._reported:
            return ()
        which = f"{self._reported} of {self._texts} texts are" if self._texts > 1 else "the text is"
        cause = f"{which} unknown to the tokenizer for more than a tenth ({self._first})"
        return (f"{cause}; check that the model is for this language, script and case",)


def _text_of(value: object) -> str:
    """The text of a field; the words or sentences of a list joined, and nothing for labels such as spans."""
    if isinstance(value, list | tuple):
        return " ".join(filter(None, map(_text_of, value)))
    return value if isinstance(value, str) else ""
