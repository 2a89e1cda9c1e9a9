"""Generated text: ROUGE and BLEU.

What enters is for each text its reference or references and the predicted text; what leaves is percentages.

- ROUGE-1, ROUGE-2 and ROUGE-L are the mean F1 that Google's `rouge-score` package computes. English is split into words
  and stemmed by the package, as in published results. The package drops every character outside a-z and 0-9, so other
  languages are split by `spanlab.text`: Chinese into characters, Korean into eojeols. With several references, each
  measure takes its best one, by the package's rule.
- BLEU (Papineni et al. 2002) is over the whole corpus, with n-grams up to four and the brevity penalty, on tokens that
  the caller provides: scores compare only under the same tokenization (mteval 13a, which published scores use, is not
  included). It is not smoothed: without a common 4-gram it is 0.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence

from spanlab.errors import InputError, MissingExtraError
from spanlab.metrics.precision_recall import check_paired
from spanlab.text.words import word_spans

Tokens = Sequence[str]

_ROUGE = ("rouge1", "rouge2", "rougeL")
_ORDERS = range(1, 5)


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


def score_bleu(references: Sequence[Sequence[Tokens]], predicted: Sequence[Tokens]) -> dict[str, float]:
    """`bleu` of the predictions, each with one or more references."""
    check_paired(references, predicted, "texts")
    if not all(references):
        raise InputError("a text has no reference", fix="give at least one for each")
    matched, possible = Counter[int](), Counter[int]()
    reference_length = predicted_length = 0
    for gold, tokens in zip(references, predicted, strict=True):
        predicted_length += len(tokens)
        reference_length += min(map(len, gold), key=lambda length: (abs(length - len(tokens)), length))
        for order in _ORDERS:
            matched[order] += _matches(gold, tokens, order)
            possible[order] += max(len(tokens) - order + 1, 0)
    if not all(matched[order] for order in _ORDERS):
        return {"bleu": 0.0}
    mean_log = sum(math.log(matched[order] / possible[order]) for order in _ORDERS) / len(_ORDERS)
    return {"bleu": 100.0 * math.exp(mean_log + min(0.0, 1.0 - reference_length / predicted_length))}


def _matches(references: Sequence[Tokens], predicted: Tokens, order: int) -> int:
    """How many predicted n-grams occur in a reference, each clipped to its highest count in any reference."""
    allowed = Counter[tuple[str, ...]]()
    for reference in references:
        allowed |= _ngrams(reference, order)
    return (_ngrams(predicted, order) & allowed).total()


def _ngrams(tokens: Tokens, order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[start : start + order]) for start in range(len(tokens) - order + 1))
