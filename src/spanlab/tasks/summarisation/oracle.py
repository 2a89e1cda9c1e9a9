"""The sentences that an extractive summary should have had: labels for training where only a reference is given, and
the most that choosing sentences can reach.

What enters is a text's sentences and its reference summaries; what leaves is the numbers of the chosen sentences. The
search is BERTSUM's: the sentence that raises ROUGE-1 + ROUGE-2 most is taken, until none does or the summary is full.
It is greedy, so a better choice may exist; trying all of them would take 2^n. Words are those the metric counts, and a
bigram may span the joint of two chosen sentences, as it does when the summary is scored.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from spanlab.metrics.rouge import rouge_words
from spanlab.tasks.summarisation.decode import Limit, sentence_words

_ORDERS = (1, 2)

Words = Sequence[str]
NGrams = Counter[tuple[str, ...]]


class RougeOracle:
    """The search for one language."""

    def __init__(self, language: str) -> None:
        self._cut: Callable[[str], list[str]] = rouge_words(language)

    def choose(self, sentences: Sequence[str], references: Sequence[str], limit: Limit) -> list[int]:
        """The numbers of the best sentences, in the order of the text; none where nothing is shared."""
        words = [self._cut(sentence) for sentence in sentences]
        wanted = [_count(self._cut(reference)) for reference in references]
        room = limit.room([len(sentence_words(sentence)) for sentence in sentences])
        chosen: list[int] = []
        best = 0.0
        while True:
            tried = {
                number: _gain([words[each] for each in sorted((*chosen, number))], wanted)
                for number in range(len(words))
                if number not in chosen and room.holds(chosen, number)
            }
            number = max(tried, key=lambda each: (tried[each], -each), default=None)
            if number is None or tried[number] <= best:
                return sorted(chosen)
            best = tried[number]
            chosen.append(number)

    def likeness(self, summary: str, references: Sequence[str]) -> float:
        """ROUGE-1 F1 of a summary against the reference it is most like, 0 to 1."""
        found = self._cut(summary)
        return max(_f1(_ngrams(found, 1), _ngrams(self._cut(reference), 1)) for reference in references)


def _count(words: Words) -> list[NGrams]:
    return [_ngrams(words, order) for order in _ORDERS]


def _gain(sentences: Sequence[Words], references: Sequence[Sequence[NGrams]]) -> float:
    """ROUGE-1 + ROUGE-2 of sentences put together, against the reference that is best."""
    found = _count([word for words in sentences for word in words])
    return max(sum(_f1(*pair) for pair in zip(found, wanted, strict=True)) for wanted in references)


def _f1(found: NGrams, wanted: NGrams) -> float:
    both = found.total() + wanted.total()
    return 2 * (found & wanted).total() / both if both else 0.0


def _ngrams(words: Words, order: int) -> NGrams:
    return Counter(tuple(words[start : start + order]) for start in range(len(words) - order + 1))
