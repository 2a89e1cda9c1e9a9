"""Precision, recall and F1 over sets of labelled items: what entities, relations and classes share.

What enters is a set of gold and a set of predicted items for each text; an item is correct when the other set of the
same text contains it. What leaves is percentages: micro over all items, macro as the mean of the labels' F1. The labels
of the macro mean are those seen in gold or predicted, as in seqeval and scikit-learn. Division by zero gives 0.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence, Sized
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from spanlab.errors import InputError
from spanlab.metrics.score_counts import ScoreCounts

Item = TypeVar("Item", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class LabelScores:
    """Scores of one label in percent, and its number of gold items."""

    precision: float
    recall: float
    f1: float
    support: int


def check_paired(gold: Sized, predicted: Sized, what: str) -> None:
    """Raise where two lists of `what` differ in length or are empty."""
    if len(gold) != len(predicted):
        raise InputError(
            f"{len(gold)} gold {what} and {len(predicted)} predicted",
            fix="give one prediction for each, in the same order",
        )
    if not len(gold):
        raise InputError(f"there are no {what} to score")


def percent(part: float, whole: float) -> float:
    """`part` of `whole` in percent; 0 when there is no whole."""
    return 100.0 * part / whole if whole else 0.0


def harmonic_mean(precision: float, recall: float) -> float:
    """F1; 0 when both are 0."""
    return 2.0 * precision * recall / (precision + recall) if precision + recall else 0.0


def label_table(
    gold: Sequence[Iterable[Item]], predicted: Sequence[Iterable[Item]], label_of: Callable[[Item], str]
) -> dict[str, LabelScores]:
    """The scores of each label, in alphabetical order."""
    correct, predicted_counts, gold_counts = _count(gold, predicted, label_of)
    labels = sorted(predicted_counts | gold_counts)
    return {label: _scores(correct[label], predicted_counts[label], gold_counts[label]) for label in labels}


def micro_and_macro(
    gold: Sequence[Iterable[Item]], predicted: Sequence[Iterable[Item]], label_of: Callable[[Item], str]
) -> dict[str, float]:
    """`precision`, `recall` and `f1` over all items, and `macro_f1` over their labels."""
    correct, predicted_counts, gold_counts = _count(gold, predicted, label_of)
    micro = _scores(correct.total(), predicted_counts.total(), gold_counts.total())
    labels = sorted(predicted_counts | gold_counts)  # the order of a set, and the last bit of a sum, differ by process
    by_label = [_scores(correct[label], predicted_counts[label], gold_counts[label]).f1 for label in labels]
    macro_f1 = sum(by_label) / len(by_label) if by_label else 0.0
    return {"precision": micro.precision, "recall": micro.recall, "f1": micro.f1, "macro_f1": macro_f1}


def f1_counts(gold: Sequence[Iterable[Item]], predicted: Sequence[Iterable[Item]], metric: str = "f1") -> ScoreCounts:
    """What micro F1 is computed from, for each text."""
    check_paired(gold, predicted, "texts")
    pairs = zip(map(set, gold), map(set, predicted), strict=True)
    rows = [(len(items & found), len(found), len(items)) for items, found in pairs]
    return ScoreCounts(metric=metric, rule="f1", counts_UC=np.array(rows, np.float64))


def named_scores(name: str, precision: float, recall: float) -> dict[str, float]:
    """`NAME_precision`, `NAME_recall` and `NAME_f1`."""
    f1 = harmonic_mean(precision, recall)
    return {f"{name}_precision": precision, f"{name}_recall": recall, f"{name}_f1": f1}


def _count(
    gold: Sequence[Iterable[Item]], predicted: Sequence[Iterable[Item]], label_of: Callable[[Item], str]
) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """How many items of each label are correct, predicted and gold."""
    check_paired(gold, predicted, "texts")
    correct, predicted_counts, gold_counts = Counter[str](), Counter[str](), Counter[str]()
    for gold_items, predicted_items in zip(map(set, gold), map(set, predicted), strict=True):
        correct.update(map(label_of, gold_items & predicted_items))
        predicted_counts.update(map(label_of, predicted_items))
        gold_counts.update(map(label_of, gold_items))
    return correct, predicted_counts, gold_counts


def _scores(correct: int, predicted: int, gold: int) -> LabelScores:
    precision, recall = percent(correct, predicted), percent(correct, gold)
    return LabelScores(precision=precision, recall=recall, f1=harmonic_mean(precision, recall), support=gold)
