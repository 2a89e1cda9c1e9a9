"""Summaries: ROUGE-1, ROUGE-2 and ROUGE-L, as Google's `rouge-score` package counts them.

What enters is a reference and a predicted summary for each text; what leaves is the mean F1 in percent as `rouge1`,
`rouge2` and `rougeL`. English is cut into words and stemmed by the package, as in published results. The package drops
every character outside a-z and 0-9, so for other languages the words of `spanlab.text` are counted instead: in Chinese
each character, in Korean each eojeol. Where a text has several references, each measure takes
its best one, by the package's rule.
"""

from collections.abc import Callable, Sequence

from spanlab.errors import MissingExtraError
from spanlab.metrics.pairing import check_paired
from spanlab.text.words import word_spans

_NAMES = ("rouge1", "rouge2", "rougeL")


class _Words:
    """A tokenizer as `rouge-score` wants one."""

    def tokenize(self, text: str) -> list[str]:
        lowered = text.lower()
        return [lowered[start:end] for start, end in word_spans(lowered)]


def rouge_words(language: str = "en") -> Callable[[str], list[str]]:
    """What cuts a text into the words that ROUGE counts."""
    try:
        from rouge_score.tokenizers import DefaultTokenizer
    except ImportError:
        raise MissingExtraError("summarise", "scoring summaries") from None
    words: Callable[[str], list[str]] = (DefaultTokenizer(use_stemmer=True) if language == "en" else _Words()).tokenize
    return words


def score_rouge(
    references: Sequence[str | Sequence[str]], predicted: Sequence[str], *, language: str | Sequence[str] = "en"
) -> dict[str, float]:
    """The mean scores of the predicted summaries; a text may have several references, and a language of its own."""
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        raise MissingExtraError("summarise", "scoring summaries") from None
    check_paired(references, predicted, "summaries")
    languages = [language] * len(predicted) if isinstance(language, str) else language
    scorers = {True: RougeScorer(list(_NAMES), use_stemmer=True), False: RougeScorer(list(_NAMES), tokenizer=_Words())}
    scores = [
        scorers[spoken == "en"].score_multi([wanted] if isinstance(wanted, str) else list(wanted), found)
        for wanted, found, spoken in zip(references, predicted, languages, strict=True)
    ]
    return {name: 100.0 * sum(score[name].fmeasure for score in scores) / len(scores) for name in _NAMES}
