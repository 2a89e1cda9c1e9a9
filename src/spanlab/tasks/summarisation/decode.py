"""Scored sentences to a summary: the best ones up to a length, none that repeats another, in the order of the text.

What enters is a score for every sentence and how long a summary may be; what leaves is the numbers of the chosen
sentences. Trigram blocking is the rule of BERTSUM: a sentence that shares three words in a row with a better one is
passed over. A summary always has a sentence: where all are longer than the limit allows, a shortest one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spanlab.errors import ConfigError
from spanlab.text.words import word_spans

LimitUnit = Literal["sentences", "words", "ratio"]


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The longest a summary may be."""

    amount: float
    unit: LimitUnit = "sentences"
    """ratio: a share of the text's words."""

    def __post_init__(self) -> None:
        if not self.amount > 0:
            raise ConfigError(f"'limit' is {self.amount:g}; it must be above 0")
        if self.unit == "ratio" and self.amount > 1:
            raise ConfigError(f"'limit' is {self.amount:g}; a ratio is at most 1")

    def room(self, words: Sequence[int]) -> "Room":
        """What it leaves in a text whose sentences have so many words."""
        costs = [1] * len(words) if self.unit == "sentences" else words
        budget = self.amount * sum(words) if self.unit == "ratio" else self.amount
        return Room(costs=costs, budget=max(budget, min(costs)))


@dataclass(frozen=True, kw_only=True)
class Room:
    """What each sentence of a text costs, and what all chosen ones together may."""

    costs: Sequence[int]
    budget: float

    def holds(self, chosen: Sequence[int], another: int) -> bool:
        """Whether a sentence fits beside the chosen ones."""
        return sum(self.costs[number] for number in (*chosen, another)) <= self.budget + 1e-9


def select_sentences(
    scores: NDArray[np.floating], sentences: Sequence[str], limit: Limit, *, block_trigrams: bool = True
) -> list[int]:
    """The numbers of the chosen sentences, in the order of the text; a score of -inf is never chosen."""
    words = [sentence_words(sentence) for sentence in sentences]
    room = limit.room([len(each) for each in words])
    chosen: list[int] = []
    taken: set[tuple[str, ...]] = set()
    for number in np.argsort(-scores, kind="stable").tolist():
        if scores[number] == -np.inf or not room.holds(chosen, number):
            continue
        trigrams = set(zip(words[number], words[number][1:], words[number][2:], strict=False))
        if block_trigrams and trigrams & taken:
            continue
        chosen.append(number)
        taken |= trigrams
    return sorted(chosen)


def lead_sentences(sentences: Sequence[str], limit: Limit) -> list[int]:
    """The first sentence of a text and what fits of those after it: the summary to beat."""
    room = limit.room([len(sentence_words(sentence)) for sentence in sentences])
    chosen = [0]
    while len(chosen) < len(sentences) and room.holds(chosen, len(chosen)):
        chosen.append(len(chosen))
    return chosen


def sentence_words(sentence: str) -> list[str]:
    """The words of a sentence, small letters and no punctuation; in Chinese each character is one."""
    lowered = sentence.lower()
    words = (lowered[start:end] for start, end in word_spans(lowered))
    return [word for word in words if any(map(str.isalnum, word))]
