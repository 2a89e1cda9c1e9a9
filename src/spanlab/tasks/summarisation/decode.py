"""The sentences of a summary within a limit: the best by their scores, the lead, or the oracle's choice.

Trigram blocking is the rule of BERTSUM: a sentence that shares three words in a row with a better one is skipped. A
summary has at least one sentence: if all exceed the limit, a shortest one. The oracle chooses the sentences closest
to a reference by ROUGE; they are the training labels if only a reference is given, and an upper bound for models.
"""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from spanlab.metrics.generation import rouge_words
from spanlab.tasks.summarisation.config import Limit
from spanlab.text.words import word_spans

NGrams = Counter[tuple[str, ...]]


def select_sentences(
    scores: NDArray[np.floating], sentences: Sequence[str], limit: Limit, *, block_trigrams: bool = True
) -> list[int]:
    """The indices of the chosen sentences, in the order of the text; a score of -inf is never chosen."""
    words = [sentence_words(sentence) for sentence in sentences]
    budget = limit.budget([len(sentence) for sentence in words])
    chosen: list[int] = []
    chosen_trigrams: set[tuple[str, ...]] = set()
    for index in np.argsort(-scores, kind="stable").tolist():
        if scores[index] == -np.inf or not budget.allows(chosen, index):
            continue
        trigrams = set(zip(words[index], words[index][1:], words[index][2:], strict=False))
        if block_trigrams and trigrams & chosen_trigrams:
            continue
        chosen.append(index)
        chosen_trigrams |= trigrams
    return sorted(chosen)


def lead_sentences(sentences: Sequence[str], limit: Limit) -> list[int]:
    """The first sentences of a text, as many as fit the limit: the baseline."""
    budget = limit.budget([len(sentence_words(sentence)) for sentence in sentences])
    chosen = [0]
    while len(chosen) < len(sentences) and budget.allows(chosen, len(chosen)):
        chosen.append(len(chosen))
    return chosen


def sentence_words(sentence: str) -> list[str]:
    """The words of a sentence in lower case, without punctuation; in Chinese each character is one."""
    lowered = sentence.lower()
    words = (lowered[start:end] for start, end in word_spans(lowered))
    return [word for word in words if any(map(str.isalnum, word))]


class RougeOracle:
    """The greedy search of the oracle, for one language."""

    def __init__(self, language: str) -> None:
        self._split: Callable[[str], list[str]] = rouge_words(language)

    def choose(self, sentences: Sequence[str], references: Sequence[str], limit: Limit) -> list[int]:
        """The indices of the best sentences, in the order of the text; none where nothing is shared.

        The sentence that adds most to ROUGE-1 + ROUGE-2 is taken, until none adds anything or fits the limit.
        """
        words = [self._split(sentence) for sentence in sentences]
        targets = [_ngram_counts(self._split(reference)) for reference in references]
        budget = limit.budget([len(sentence_words(sentence)) for sentence in sentences])
        chosen: list[int] = []
        best = 0.0
        while True:
            scores = {
                index: _rouge([words[sentence] for sentence in sorted((*chosen, index))], targets)
                for index in range(len(words))
                if index not in chosen and budget.allows(chosen, index)
            }
            index = max(scores, key=lambda index: (scores[index], -index), default=None)
            if index is None or scores[index] <= best:
                return sorted(chosen)
            best = scores[index]
            chosen.append(index)

    def rouge1(self, summary: str, references: Sequence[str]) -> float:
        """ROUGE-1 F1 of a summary against its closest reference, 0 to 1."""
        predicted = _ngrams(self._split(summary), 1)
        return max(_f1(predicted, _ngrams(self._split(reference), 1)) for reference in references)


def _rouge(sentences: Sequence[Sequence[str]], references: Sequence[Sequence[NGrams]]) -> float:
    """ROUGE-1 + ROUGE-2 of sentences put together, against the closest reference."""
    predicted = _ngram_counts([word for words in sentences for word in words])
    return max(sum(_f1(*pair) for pair in zip(predicted, reference, strict=True)) for reference in references)


def _ngram_counts(words: Sequence[str]) -> list[NGrams]:
    return [_ngrams(words, 1), _ngrams(words, 2)]


def _ngrams(words: Sequence[str], order: int) -> NGrams:
    return Counter(tuple(words[start : start + order]) for start in range(len(words) - order + 1))


def _f1(predicted: NGrams, gold: NGrams) -> float:
    total = predicted.total() + gold.total()
    return 2 * (predicted & gold).total() / total if total else 0.0
