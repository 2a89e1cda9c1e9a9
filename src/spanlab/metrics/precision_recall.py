"""Precision, recall and F1 over sets of labelled things: the arithmetic that entities, relations and classes share.

What enters is one set of gold and one of predicted things for each text; a thing is right when the other set of the
same text holds its equal. What leaves is percentages: micro over all things, macro as the plain mean of the labels'
F1. The labels of the macro mean are those seen in gold or predicted, as in seqeval and scikit-learn. Where there is
nothing to divide by, a score is 0.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from spanlab.metrics.pairing import check_paired

Thing = TypeVar("Thing", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class LabelScores:
    """How well one label is found, in percent, and how many gold things carry it."""

    precision: float
    recall: float
    f1: float
    support: int


def percent(part: float, whole: float) -> float:
    """`part` of `whole` in percent; 0 when there is no whole."""
    return 100.0 * part / whole if whole else 0.0


def harmonic_mean(precision: float, recall: float) -> float:
    """F1; 0 when both are 0."""
    return 2.0 * precision * recall / (precision + recall) if precision + recall else 0.0


def label_table(
    gold: Sequence[Iterable[Thing]], predicted: Sequence[Iterable[Thing]], label_of: Callable[[Thing], str]
) -> dict[str, LabelScores]:
    """The scores of each label, in alphabetical order."""
    correct, found, wanted = _count(gold, predicted, label_of)
    return {label: _scores(correct[label], found[label], wanted[label]) for label in sorted(found | wanted)}


def micro_and_macro(
    gold: Sequence[Iterable[Thing]], predicted: Sequence[Iterable[Thing]], label_of: Callable[[Thing], str]
) -> dict[str, float]:
    """`precision`, `recall` and `f1` over all things, and `macro_f1` over their labels."""
    correct, found, wanted = _count(gold, predicted, label_of)
    micro = _scores(correct.total(), found.total(), wanted.total())
    by_label = [_scores(correct[label], found[label], wanted[label]).f1 for label in found | wanted]
    macro_f1 = sum(by_label) / len(by_label) if by_label else 0.0
    return {"precision": micro.precision, "recall": micro.recall, "f1": micro.f1, "macro_f1": macro_f1}


def named_scores(name: str, precision: float, recall: float) -> dict[str, float]:
    """`NAME_precision`, `NAME_recall` and `NAME_f1`."""
    f1 = harmonic_mean(precision, recall)
    return {f"{name}_precision": precision, f"{name}_recall": recall, f"{name}_f1": f1}


def _count(
    gold: Sequence[Iterable[Thing]], predicted: Sequence[Iterable[Thing]], label_of: Callable[[Thing], str]
) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """How many things of each label are right, predicted, and gold."""
    check_paired(gold, predicted, "texts")
    correct, found, wanted = Counter[str](), Counter[str](), Counter[str]()
    for gold_things, predicted_things in zip(map(set, gold), map(set, predicted), strict=True):
        correct.update(map(label_of, gold_things & predicted_things))
        found.update(map(label_of, predicted_things))
        wanted.update(map(label_of, gold_things))
    return correct, found, wanted


def _scores(correct: int, found: int, wanted: int) -> LabelScores:
    precision, recall = percent(correct, found), percent(correct, wanted)
    return LabelScores(precision=precision, recall=recall, f1=harmonic_mean(precision, recall), support=wanted)
