"""ROUGE of generated text.

What enters is for each text its reference or references and the predicted text; what leaves is percentages: ROUGE-1,
ROUGE-2 and ROUGE-L are the mean F1 that Google's `rouge-score` package computes. English is split into words and
stemmed by the package, as in published results. The package drops every character outside a-z and 0-9, so other
languages are split by `spanlab.text`: Chinese into characters, Korean into eojeols. With several references, each
measure takes its best one, by the package's rule.
"""

from collections.abc import Callable, Sequence

from spanlab.errors import MissingExtraError
from spanlab.metrics.precision_recall import check_paired
from spanlab.text.words import word_spans

_ROUGE = ("rouge1", "rouge2", "rougeL")


class _WordTokenizer:
    """Words of any language, with the interface of `rouge-score`'s tokenizers."""

    def tokenize(self, text: str) -> list[str]:
        lowered = text.lower()
        return [lowered[start:end] for start, end in word_spans(lowered)]


def rouge_words(language: str = "en") -> Callable[[str], list[str]]:
    """The function that splits a text into the words that ROUGE counts."""
    try:
        from rouge_score.tokenizers import DefaultTokenizer
    except ImportError:
        raise MissingExtraError("summarise", "scoring summaries") from None
    tokenizer = DefaultTokenizer(use_stemmer=True) if language == "en" else _WordTokenizer()
    words: Callable[[str], list[str]] = tokenizer.tokenize
    return words


def score_rouge(
    references: Sequence[str | Sequence[str]], predicted: Sequence[str], *, language: str | Sequence[str] = "en"
) -> dict[str, float]:
    """`rouge1`, `rouge2` and `rougeL`; `language` is that of all texts, or one for each."""
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        raise MissingExtraError("summarise", "scoring summaries") from None
    check_paired(references, predicted, "summaries")
    languages = [language] * len(predicted) if isinstance(language, str) else language
    english = RougeScorer(list(_ROUGE), use_stemmer=True)
    others = RougeScorer(list(_ROUGE), tokenizer=_WordTokenizer())
    scores = [
        (english if code == "en" else others).score_multi([gold] if isinstance(gold, str) else list(gold), text)
        for gold, text, code in zip(references, predicted, languages, strict=True)
    ]
    return {name: 100.0 * sum(score[name].fmeasure for score in scores) / len(scores) for name in _ROUGE}
