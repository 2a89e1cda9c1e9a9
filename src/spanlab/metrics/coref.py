"""Coreference: how far predicted clusters of mentions agree with the gold ones.

What enters is the clusters of each document; a mention is anything that can be compared, such as a span. What leaves
is precision, recall and F1 in percent of

- `muc` (Vilain et al. 1995): links; blind to clusters of one mention;
- `b3` (Bagga and Baldwin 1998): for each mention the share of its cluster that is right;
- `ceafe` (Luo 2005, phi4): clusters matched one to one as well as they can be;
- `lea` (Moosavi and Strube 2016): links of each cluster, weighted by its size; a single mention links to itself;
- `mention`: the mentions, whatever their clusters;

and `conll_f1`, the mean of the first three. As in the reference scorer (Pradhan et al. 2014), counts are added up over
all documents before anything is divided, nothing is done to mentions that only one side has, and a mention that is
given twice counts once, in the first cluster that holds it.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from spanlab.metrics.pairing import check_paired
from spanlab.metrics.precision_recall import named_scores, percent

Clusters = Sequence[Iterable[Hashable]]
"""The clusters of one document."""

_Partition = list[frozenset[Hashable]]
_Score = Callable[[frozenset[Hashable], Counter[int], _Partition], tuple[float, float]]


def score_clusters(
    gold: Sequence[Clusters], predicted: Sequence[Clusters], *, singletons: bool = True
) -> dict[str, float]:
    """All the scores, documents side by side; without `singletons`, clusters of one mention count on neither side."""
    check_paired(gold, predicted, "documents")
    keys = [_partition(clusters, singletons=singletons) for clusters in gold]
    responses = [_partition(clusters, singletons=singletons) for clusters in predicted]
    scores: dict[str, float] = {}
    for name, part in (("muc", _muc), ("b3", _b_cubed), ("lea", _lea)):
        precision, recall = _summed(responses, keys, part), _summed(keys, responses, part)
        scores |= named_scores(name, precision, recall)
    scores |= _ceafe(keys, responses)
    scores |= _mentions(keys, responses)
    scores["conll_f1"] = (scores["muc_f1"] + scores["b3_f1"] + scores["ceafe_f1"]) / 3
    return scores


def _partition(clusters: Clusters, *, singletons: bool) -> _Partition:
    """The clusters as sets, each mention in the first that has it, without what is then empty."""
    seen: set[Hashable] = set()
    partition = []
    for cluster in clusters:
        mentions = frozenset(cluster) - seen
        seen |= mentions
        if len(mentions) >= (1 if singletons else 2):
            partition.append(mentions)
    return partition


def _overlaps(clusters: _Partition, others: _Partition) -> list[Counter[int]]:
    """For each cluster, how many of its mentions lie in which other cluster."""
    home = {mention: index for index, other in enumerate(others) for mention in other}
    return [Counter(home[mention] for mention in cluster if mention in home) for cluster in clusters]


def _summed(documents: Sequence[_Partition], others: Sequence[_Partition], score: _Score) -> float:
    """What `score` says of every cluster of all documents, in percent of what it could have said."""
    part, whole = 0.0, 0.0
    for clusters, other in zip(documents, others, strict=True):
        for cluster, shares in zip(clusters, _overlaps(clusters, other), strict=True):
            gained, possible = score(cluster, shares, other)
            part += gained
            whole += possible
    return percent(part, whole)


def _muc(cluster: frozenset[Hashable], shares: Counter[int], _: _Partition) -> tuple[float, float]:
    """Links needed to join the cluster, and those that the other side's pieces of it save."""
    return shares.total() - len(shares), len(cluster) - 1


def _b_cubed(cluster: frozenset[Hashable], shares: Counter[int], _: _Partition) -> tuple[float, float]:
    """Each mention's share of its cluster that the other side keeps with it."""
    return sum(share**2 for share in shares.values()) / len(cluster), len(cluster)


def _lea(cluster: frozenset[Hashable], shares: Counter[int], others: _Partition) -> tuple[float, float]:
    """The share of the cluster's links that the other side has too, times its size."""
    size = len(cluster)
    if size == 1:
        return float(any(len(others[index]) == 1 for index in shares)), 1
    kept = sum(share * (share - 1) for share in shares.values())
    return kept / (size - 1), size


def _ceafe(keys: Sequence[_Partition], responses: Sequence[_Partition]) -> dict[str, float]:
    """The best one-to-one matching of clusters by phi4, the Dice coefficient of their mentions."""
    matched = sum(_best_matching(key, response) for key, response in zip(keys, responses, strict=True))
    return named_scores("ceafe", percent(matched, sum(map(len, responses))), percent(matched, sum(map(len, keys))))


def _best_matching(key: _Partition, response: _Partition) -> float:
    similarity = np.zeros((len(key), len(response)))
    for row, (cluster, shares) in enumerate(zip(key, _overlaps(key, response), strict=True)):
        for column, share in shares.items():
            similarity[row, column] = 2 * share / (len(cluster) + len(response[column]))
    return float(similarity[linear_sum_assignment(similarity, maximize=True)].sum())


def _mentions(keys: Sequence[_Partition], responses: Sequence[_Partition]) -> dict[str, float]:
    wanted = [frozenset[Hashable]().union(*key) for key in keys]
    found = [frozenset[Hashable]().union(*response) for response in responses]
    right = sum(len(key & response) for key, response in zip(wanted, found, strict=True))
    return named_scores("mention", percent(right, sum(map(len, found))), percent(right, sum(map(len, wanted))))
