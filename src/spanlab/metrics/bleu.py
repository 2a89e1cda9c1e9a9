"""Generated text: BLEU with n-grams up to four and the brevity penalty (Papineni et al. 2002), over a whole corpus.

What enters is tokens, for each text one or more references and a prediction; what leaves is `bleu` in percent. How text
is cut into tokens decides the score, and is the caller's choice: numbers compare only under one tokenization (that of
mteval 13a, which published numbers use, is not here). There is no smoothing: without a single common 4-gram it is 0.
"""

import math
from collections import Counter
from collections.abc import Sequence

from spanlab.errors import InputError
from spanlab.metrics.pairing import check_paired

_ORDERS = range(1, 5)

Tokens = Sequence[str]


def score_bleu(references: Sequence[Sequence[Tokens]], predicted: Sequence[Tokens]) -> dict[str, float]:
    """`bleu` of the predictions."""
    check_paired(references, predicted, "texts")
    if not all(references):
        raise InputError("a text has no reference", fix="give at least one for each")
    matched, possible = Counter[int](), Counter[int]()
    wanted_length = found_length = 0
    for wanted, found in zip(references, predicted, strict=True):
        found_length += len(found)
        wanted_length += min(map(len, wanted), key=lambda length: (abs(length - len(found)), length))
        for order in _ORDERS:
            matched[order] += _matches(wanted, found, order)
            possible[order] += max(len(found) - order + 1, 0)
    if not all(matched[order] for order in _ORDERS):
        return {"bleu": 0.0}
    mean_log = sum(math.log(matched[order] / possible[order]) for order in _ORDERS) / len(_ORDERS)
    return {"bleu": 100.0 * math.exp(mean_log + min(0.0, 1.0 - wanted_length / found_length))}


def _matches(references: Sequence[Tokens], predicted: Tokens, order: int) -> int:
    """The predicted n-grams that are in a reference, each as often at most as the reference that has most of it."""
    allowed = Counter[tuple[str, ...]]()
    for reference in references:
        allowed |= _ngrams(reference, order)
    return (_ngrams(predicted, order) & allowed).total()


def _ngrams(tokens: Tokens, order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[start : start + order]) for start in range(len(tokens) - order + 1))
