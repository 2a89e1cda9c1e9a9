"""BLEU and chrF of a corpus, as sacrebleu computes them; tests compare the two.

What enters is for each text its reference or references and the predicted text; what leaves is percentages.

- BLEU (Papineni et al. 2002) has n-grams up to four, the brevity penalty with the reference of the closest length, and
  with `smooth` mteval's smoothing: the k-th order without a match counts as 1 / 2^k matches. It is over tokens that the
  caller provides; `bleu_tokens` makes those of mteval 13a, which published scores use, and of sacrebleu for Chinese.
- chrF (Popović 2015) is the F-score, with recall twice as important, of character n-grams up to six without spaces,
  averaged over the orders that occur. Of several references the one with the best score counts.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence

from spanlab.errors import InputError
from spanlab.metrics.precision_recall import check_paired

Tokens = Sequence[str]

_BLEU_ORDERS, _CHRF_ORDERS = range(1, 5), range(1, 7)
_RECALL_WEIGHT = 2.0**2
_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_PUNCTUATION = re.compile(r"([!-&(-+:-@\[-`{-~/ ])")  # ASCII without digits, letters, and ' , - .
_AFTER_NO_DIGIT, _BEFORE_NO_DIGIT = re.compile(r"([^0-9])([.,])"), re.compile(r"([.,])([^0-9])")
_DASH_AFTER_DIGIT = re.compile(r"([0-9])(-)")
# The characters that sacrebleu separates in Chinese text, general punctuation and symbols among them; rarer Han
# characters, beyond U+FFFF, are not.
_CHINESE = re.compile(
    "([\u2001-\u2a6d\u2e80-\u2fdf\u2ff0-\u303f\u3100-\u312f\u31a0-\u31bf\u31c0-\u31ef\u3200-\u4db5\u4e00-\u9fbb"
    "\uf900-\ufa2d\ufa30-\ufa6a\ufa70-\ufad9\ufe10-\ufe1f\ufe30-\ufe4f\uff00-\uffef])"
)


def bleu_tokens(text: str, language: str = "en") -> list[str]:
    """The tokens that BLEU counts: mteval's 13a, and for `zh` each Chinese character alone."""
    text = text.rstrip()
    if language == "zh":
        text = _CHINESE.sub(r" \1 ", text.strip())
    else:
        text = text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
        for entity, character in _ENTITIES:
            text = text.replace(entity, character)
        text = f" {text} "
    text = _PUNCTUATION.sub(r" \1 ", text)
    text = _AFTER_NO_DIGIT.sub(r"\1 \2 ", text)
    text = _BEFORE_NO_DIGIT.sub(r" \1 \2", text)
    return _DASH_AFTER_DIGIT.sub(r"\1 \2 ", text).split()


def score_bleu(
    references: Sequence[Sequence[Tokens]], predicted: Sequence[Tokens], *, smooth: bool = False
) -> dict[str, float]:
    """`bleu` of the predictions, each with one or more references; unsmoothed it is 0 without a common 4-gram."""
    check_paired(references, predicted, "texts")
    if not all(references):
        raise InputError("a text has no reference", fix="give at least one for each")
    matched, possible = Counter[int](), Counter[int]()
    reference_length = predicted_length = 0
    for gold, tokens in zip(references, predicted, strict=True):
        predicted_length += len(tokens)
        reference_length += min(map(len, gold), key=lambda length: (abs(length - len(tokens)), length))
        for order in _BLEU_ORDERS:
            matched[order] += _matches(gold, tokens, order)
            possible[order] += max(len(tokens) - order + 1, 0)
    precisions = _precisions(matched, possible, smooth=smooth)
    if not matched.total() or not all(precisions):
        return {"bleu": 0.0}
    mean_log = sum(map(math.log, precisions)) / len(precisions)
    return {"bleu": 100.0 * math.exp(mean_log + min(0.0, 1.0 - reference_length / predicted_length))}


def _precisions(matched: Counter[int], possible: Counter[int], *, smooth: bool) -> list[float]:
    precisions, credit = [], 1.0
    for order in _BLEU_ORDERS:
        if not matched[order] and smooth:
            credit /= 2
        count = matched[order] or (credit if smooth else 0.0)
        precisions.append(count / possible[order] if possible[order] else 0.0)
    return precisions


def _matches(references: Sequence[Tokens], predicted: Tokens, order: int) -> int:
    """How many predicted n-grams occur in a reference, each clipped to its highest count in any reference."""
    allowed = Counter[tuple[str, ...]]()
    for reference in references:
        allowed |= _ngrams(reference, order)
    return (_ngrams(predicted, order) & allowed).total()


def _ngrams(tokens: Tokens, order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[start : start + order]) for start in range(len(tokens) - order + 1))


_Counts = Sequence[tuple[int, int, int]]
"""For each order the n-grams of the prediction, those of the reference, and those they have in common."""


def score_chrf(references: Sequence[str | Sequence[str]], predicted: Sequence[str]) -> dict[str, float]:
    """`chrf` of the predictions, each with one or more references."""
    check_paired(references, predicted, "texts")
    totals: _Counts = [(0, 0, 0) for _ in _CHRF_ORDERS]
    for gold, text in zip(references, predicted, strict=True):
        choices = [_count_characters(reference, text) for reference in ([gold] if isinstance(gold, str) else gold)]
        if not choices:
            raise InputError("a text has no reference", fix="give at least one for each")
        scores = list(map(_chrf, choices))
        totals = list(map(_add, totals, choices[scores.index(max(scores))]))
    return {"chrf": 100.0 * _chrf(totals)}


def _add(first: tuple[int, int, int], second: tuple[int, int, int]) -> tuple[int, int, int]:
    return first[0] + second[0], first[1] + second[1], first[2] + second[2]


def _count_characters(reference: str, predicted: str) -> _Counts:
    gold, text = "".join(reference.split()), "".join(predicted.split())
    counts = []
    for order in _CHRF_ORDERS:
        wanted, found = (Counter(x[start : start + order] for start in range(len(x) - order + 1)) for x in (gold, text))
        # Where a reference is too short to have such n-grams, a prediction is not punished for having them.
        counts.append((found.total() if wanted else 0, wanted.total(), (found & wanted).total()))
    return counts


def _chrf(counts: _Counts) -> float:
    """The F-score of mean precision and mean recall over the orders that both texts have."""
    known = [(common / found, common / wanted) for found, wanted, common in counts if found and wanted]
    precision, recall = (sum(values) / len(known) for values in zip(*known, strict=True)) if known else (0.0, 0.0)
    if not precision + recall:
        return 0.0
    return (1 + _RECALL_WEIGHT) * precision * recall / (_RECALL_WEIGHT * precision + recall)
