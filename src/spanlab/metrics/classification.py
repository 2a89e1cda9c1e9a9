"""Classification: one label per text, or several.

What enters is gold and predicted labels; what leaves is `accuracy` and `macro_f1` in percent and `mcc`, Matthews'
correlation, from -1 to 1 (for more than two classes Gorodkin's R_K). Numbers are those of scikit-learn with
`zero_division=0`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from spanlab.metrics.precision_recall import LabelScores, check_paired, label_table, micro_and_macro, percent


@dataclass(frozen=True, kw_only=True)
class ConfusionMatrix:
    """How often each gold label (row) was predicted as each label (column)."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


def score_classes(gold: Sequence[str], predicted: Sequence[str]) -> dict[str, float]:
    """`accuracy`, `macro_f1` and `mcc` of one label per text."""
    counts = np.array(confusion_matrix(gold, predicted).counts, dtype=np.float64)
    macro_f1 = micro_and_macro(_as_sets(gold), _as_sets(predicted), str)["macro_f1"]
    return {"accuracy": percent(float(np.trace(counts)), len(gold)), "macro_f1": macro_f1, "mcc": _matthews(counts)}


def class_table(gold: Sequence[str], predicted: Sequence[str]) -> dict[str, LabelScores]:
    """The scores of each class."""
    return label_table(_as_sets(gold), _as_sets(predicted), str)


def confusion_matrix(gold: Sequence[str], predicted: Sequence[str]) -> ConfusionMatrix:
    """Counts over all labels seen, in alphabetical order."""
    check_paired(gold, predicted, "labels")
    labels = sorted({*gold, *predicted})
    index_of = {label: index for index, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(counts, ([index_of[label] for label in gold], [index_of[label] for label in predicted]), 1)
    return ConfusionMatrix(labels=tuple(labels), counts=tuple(map(tuple, counts.tolist())))


def score_label_sets(gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]]) -> dict[str, float]:
    """`accuracy` (of whole sets), micro `precision`, `recall` and `f1`, and `macro_f1` of several labels per text."""
    scores = micro_and_macro(gold, predicted, str)
    exact = sum(set(labels) == set(answer) for labels, answer in zip(gold, predicted, strict=True))
    return {"accuracy": percent(exact, len(gold)), **scores}


def label_set_table(gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]]) -> dict[str, LabelScores]:
    """The scores of each label where a text has several."""
    return label_table(gold, predicted, str)


def _as_sets(labels: Sequence[str]) -> list[tuple[str]]:
    return [(label,) for label in labels]


def _matthews(counts: np.ndarray) -> float:
    """The correlation of gold and predicted classes; 0 when either has a single class, as in scikit-learn."""
    total, correct = counts.sum(), np.trace(counts)
    gold, predicted = counts.sum(axis=1), counts.sum(axis=0)
    spread = (total**2 - gold @ gold) * (total**2 - predicted @ predicted)
    return float((correct * total - gold @ predicted) / np.sqrt(spread)) if spread else 0.0
