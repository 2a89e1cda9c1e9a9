"""What a score is computed from, kept unit by unit, so that it can be computed again for any other sample of units.

What enters is one row of numbers for each unit of a test set (a document, a paragraph, a sentence, a pair); what leaves
is the score of the whole set, or of test sets drawn from it. F1 is a ratio of sums, not a mean: a document with many
entities weighs more than one with few, so numerators and denominators are kept and summed before they are divided.

    rule      columns of a row                                                     score
    mean      sum of the examples' scores, number of examples                      mean
    f1        correct, predicted, gold                                             micro F1 in percent
    conll_f1  of MUC and B3 gained and possible for precision and recall each;     mean of the three F1 in percent
              of CEAFe the matching, predicted clusters, gold clusters
    pearson   gold, predicted                                                      correlation
    spearman  gold, predicted                                                      correlation of ranks, drawn anew

Shapes: U units, C columns, R resamples, S seeds.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spanlab.errors import InputError

Floats = NDArray[np.float64]
Rule = Literal["mean", "f1", "conll_f1", "pearson", "spearman"]
_COLUMNS: dict[Rule, int] = {"mean": 2, "f1": 3, "conll_f1": 11, "pearson": 2, "spearman": 2}
_RANKED = ("pearson", "spearman")
"""Rules whose rows are pairs of values, not sums that could be added up over a document."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreCounts:
    """The counts of one system on one test set."""

    metric: str
    """The name of the score among the metrics of the task."""
    rule: Rule
    counts_UC: Floats

    def __post_init__(self) -> None:
        if self.counts_UC.ndim != 2 or self.counts_UC.shape[1] != _COLUMNS[self.rule] or not len(self.counts_UC):
            shape = " x ".join(map(str, self.counts_UC.shape))
            raise InputError(f"counts of {shape}; '{self.rule}' takes rows of {_COLUMNS[self.rule]}")
        if not np.isfinite(self.counts_UC).all():
            raise InputError(f"counts of {self.metric} are not finite")

    @classmethod
    def of_scores(cls, metric: str, scores: ArrayLike) -> "ScoreCounts":
        """Counts of a metric that is the mean of one score for each unit."""
        values = np.asarray(scores, np.float64)
        return cls(metric=metric, rule="mean", counts_UC=np.stack([values, np.ones_like(values)], axis=1))

    def score(self) -> float:
        """The score of the whole test set."""
        return float(resampled_scores(self.rule, self.counts_UC[None], np.ones((1, len(self.counts_UC))))[0, 0])

    def grouped(self, units: Sequence[Hashable]) -> "ScoreCounts":
        """The counts with the rows of each unit added up, in the order in which the units first appear."""
        if self.rule in _RANKED:
            return self
        index_of: dict[Hashable, int] = {}
        rows = np.array([index_of.setdefault(unit, len(index_of)) for unit in units])
        sums_UC = np.zeros((len(index_of), self.counts_UC.shape[1]))
        np.add.at(sums_UC, rows, self.counts_UC)
        return replace(self, counts_UC=sums_UC)


def resampled_scores(rule: Rule, counts_SUC: Floats, weights_RU: Floats) -> Floats:
    """(R, S) the score of each system on each test set, in which a unit occurs as often as its weight says."""
    if rule == "spearman":
        return np.stack([_spearman(counts_UC, weights_RU) for counts_UC in counts_SUC], axis=1)
    columns_SUC = _moments(counts_SUC) if rule == "pearson" else counts_SUC
    sums_RSC = np.tensordot(weights_RU, columns_SUC, axes=(1, 1))
    if rule == "mean":
        return _divide(sums_RSC[..., 0], sums_RSC[..., 1])
    if rule == "f1":
        return 200.0 * _divide(sums_RSC[..., 0], sums_RSC[..., 1] + sums_RSC[..., 2])
    return _pearson(sums_RSC) if rule == "pearson" else _conll_f1(sums_RSC)


def _divide(part: Floats, whole: Floats) -> Floats:
    """Division in which nothing of nothing is 0, as in the metrics."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _conll_f1(sums_RSC: Floats) -> Floats:
    """The mean F1 of MUC, B3 and CEAFe."""
    muc, b_cubed = (
        _f1(_divide(sums_RSC[..., i], sums_RSC[..., i + 1]), _divide(sums_RSC[..., i + 2], sums_RSC[..., i + 3]))
        for i in (0, 4)
    )
    matched, predicted, gold = (sums_RSC[..., i] for i in (8, 9, 10))
    return 100.0 * (muc + b_cubed + _f1(_divide(matched, predicted), _divide(matched, gold))) / 3.0


def _f1(precision: Floats, recall: Floats) -> Floats:
    return _divide(2.0 * precision * recall, precision + recall)


def _moments(pairs_SUC: Floats) -> Floats:
    """Columns 1, x, y, xx, yy, xy of standardised values, whose weighted sums give the correlation."""
    spread = np.ptp(pairs_SUC, axis=1, keepdims=True)
    scaled = (pairs_SUC - pairs_SUC.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1.0)
    # A constant may differ from its mean in the last bit.
    scaled = np.where(spread > 0, scaled, 0.0)
    x, y = scaled[..., 0], scaled[..., 1]
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=-1)


def _pearson(sums_RSC: Floats) -> Floats:
    """Pearson's correlation from weighted sums; 0 where either side is constant."""
    count, x, y, xx, yy, xy = np.moveaxis(sums_RSC, -1, 0)
    spread_x, spread_y = xx - x * x / count, yy - y * y / count
    varies = (spread_x > 1e-12 * count) & (spread_y > 1e-12 * count)
    scale = np.sqrt(np.where(varies, spread_x * spread_y, 1.0))
    return np.where(varies, np.clip((xy - x * y / count) / scale, -1.0, 1.0), 0.0)


def _spearman(pairs_UC: Floats, weights_RU: Floats) -> Floats:
    """(R,) the rank correlation within each test set: ranks are those of the units that it holds, ties at the mean."""
    count = weights_RU.sum(axis=1, keepdims=True)
    ranks = [_weighted_ranks(values, weights_RU) / count for values in pairs_UC.T]
    x, y = (rank - (weights_RU * rank).sum(axis=1, keepdims=True) / count for rank in ranks)
    spread_x, spread_y = (weights_RU * x * x).sum(axis=1), (weights_RU * y * y).sum(axis=1)
    varies = (spread_x > 1e-12) & (spread_y > 1e-12)
    scale = np.sqrt(np.where(varies, spread_x * spread_y, 1.0))
    return np.where(varies, np.clip((weights_RU * x * y).sum(axis=1) / scale, -1.0, 1.0), 0.0)


def _weighted_ranks(values: Floats, weights_RU: Floats) -> Floats:
    """(R, U) the mean rank of each unit, up to a constant, where it occurs as often as its weight."""
    _, group_of = np.unique(values, return_inverse=True)
    order = np.argsort(group_of, kind="stable")
    first = np.flatnonzero(np.diff(group_of[order], prepend=-1))
    weights_RG = np.add.reduceat(weights_RU[:, order], first, axis=1)
    ranks_RG = np.cumsum(weights_RG, axis=1) - weights_RG / 2.0
    ranks: Floats = ranks_RG[:, group_of]
    return ranks
