"""GAP: whether a pronoun means each of two names (Webster et al. 2018), for all, masculine and feminine pronouns.

What enters are for each question two answers, gold and predicted, and the pronoun's gender; what leaves is precision,
recall and F1 in percent over all pairs of a pronoun and a name, F1 by gender, and `bias`, the feminine F1 over the
masculine: 1 is fair.
"""

from collections.abc import Sequence

from spanlab.metrics.pairing import check_paired
from spanlab.metrics.precision_recall import harmonic_mean, percent

Answers = Sequence[tuple[bool, bool]]


def score_gap(gold: Answers, predicted: Answers, genders: Sequence[str]) -> dict[str, float]:
    """`precision`, `recall`, `f1`, `masculine_f1`, `feminine_f1` and `bias`; 0 where there is nothing to divide by."""
    check_paired(gold, predicted, "questions")
    check_paired(gold, genders, "questions")
    precision, recall, f1 = _score(gold, predicted)
    by_gender = {}
    for gender in ("masculine", "feminine"):
        chosen = [number for number, each in enumerate(genders) if each == gender]
        by_gender[gender] = _score([gold[n] for n in chosen], [predicted[n] for n in chosen])[2]
    masculine, feminine = by_gender["masculine"], by_gender["feminine"]
    return {
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "masculine_f1": masculine,
        "feminine_f1": feminine,
        "bias": feminine / masculine if masculine else 0.0,
    }


def _score(gold: Answers, predicted: Answers) -> tuple[float, float, float]:
    """Precision, recall and F1 of the answers that are yes."""
    pairs = [pair for one, other in zip(gold, predicted, strict=True) for pair in zip(one, other, strict=True)]
    right = sum(wanted and found for wanted, found in pairs)
    precision = percent(right, sum(found for _, found in pairs))
    recall = percent(right, sum(wanted for wanted, _ in pairs))
    return precision, recall, harmonic_mean(precision, recall)
