"""Coreference: agreement of predicted and gold clusters of mentions, and GAP's pronouns.

What enters is the clusters of each document; a mention is any hashable value, such as a span. What leaves is precision,
recall and F1 in percent of

- `muc` (Vilain et al. 1995): links; ignores clusters of one mention;
- `b3` (Bagga and Baldwin 1998): for each mention the correct share of its cluster;
- `ceafe` (Luo 2005, phi4): the best one-to-one matching of clusters;
- `lea` (Moosavi and Strube 2016): links of each cluster, weighted by its size; a single mention links to itself;
- `mention`: the mentions, regardless of clusters;

and `conll_f1`, the mean of the first three. As in the reference scorer (Pradhan et al. 2014), counts are added up over
all documents before dividing, mentions that only one side has are kept as they are, and a mention given twice counts
once, in the first cluster that contains it.

GAP (Webster et al. 2018) asks whether a pronoun refers to each of two names: precision, recall and F1 over all pairs of
a pronoun and a name, F1 by gender, and `bias`, the feminine F1 over the masculine (1 is fair).
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np

from spanlab.metrics.precision_recall import check_paired, f1_counts, harmonic_mean, named_scores, percent
from spanlab.metrics.score_counts import ScoreCounts

Clusters = Sequence[Iterable[Hashable]]
"""The clusters of one document."""
GapAnswers = Sequence[tuple[bool, bool]]
"""For each pronoun, whether it refers to the first and to the second name."""

_Partition = list[frozenset[Hashable]]
_Score = Callable[[frozenset[Hashable], Counter[int], _Partition], tuple[float, float]]


def score_clusters(
    gold: Sequence[Clusters], predicted: Sequence[Clusters], *, singletons: bool = True
) -> dict[str, float]:
    """All scores, document by document; `singletons=False` drops clusters of one mention on both sides."""
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


def conll_f1_counts(gold: Sequence[Clusters], predicted: Sequence[Clusters]) -> ScoreCounts:
    """What `conll_f1` is computed from, for each document."""
    check_paired(gold, predicted, "documents")
    keys, responses = (
        [_partition(clusters, singletons=True) for clusters in documents] for documents in (gold, predicted)
    )
    rows = []
    for key, response in zip(keys, responses, strict=True):
        row: list[float] = []
        for score in (_muc, _b_cubed):
            for clusters, others in ((response, key), (key, response)):
                scores = _cluster_scores(clusters, others, score)
                row += [sum(gained for gained, _ in scores), sum(possible for _, possible in scores)]
        rows.append([*row, _best_matching(key, response), len(response), len(key)])
    return ScoreCounts(metric="conll_f1", rule="conll_f1", counts_UC=np.array(rows, np.float64))


def _partition(clusters: Clusters, *, singletons: bool) -> _Partition:
    """The clusters as disjoint sets: each mention in the first cluster that has it, empty clusters dropped."""
    seen: set[Hashable] = set()
    partition = []
    for cluster in clusters:
        mentions = frozenset(cluster) - seen
        seen |= mentions
        if len(mentions) >= (1 if singletons else 2):
            partition.append(mentions)
    return partition


def _overlaps(clusters: _Partition, others: _Partition) -> list[Counter[int]]:
    """For each cluster, how many of its mentions are in which cluster of the other side."""
    cluster_of = {mention: index for index, other in enumerate(others) for mention in other}
    return [Counter(cluster_of[mention] for mention in cluster if mention in cluster_of) for cluster in clusters]


def _summed(documents: Sequence[_Partition], others: Sequence[_Partition], score: _Score) -> float:
    """The sum of `score` over all clusters of all documents, in percent of its maximum."""
    total, maximum = 0.0, 0.0
    for clusters, other in zip(documents, others, strict=True):
        for gained, possible in _cluster_scores(clusters, other, score):
            total += gained
            maximum += possible
    return percent(total, maximum)


def _cluster_scores(clusters: _Partition, others: _Partition, score: _Score) -> list[tuple[float, float]]:
    """What each cluster of a document gains and could gain."""
    overlaps = zip(clusters, _overlaps(clusters, others), strict=True)
    return [score(cluster, shares, others) for cluster, shares in overlaps]


def _muc(cluster: frozenset[Hashable], shares: Counter[int], _: _Partition) -> tuple[float, float]:
    """The links of the cluster that the other side has, and all links needed to join it."""
    return shares.total() - len(shares), len(cluster) - 1


def _b_cubed(cluster: frozenset[Hashable], shares: Counter[int], _: _Partition) -> tuple[float, float]:
    """For each mention, the share of its cluster that the other side puts with it."""
    return sum(share**2 for share in shares.values()) / len(cluster), len(cluster)


def _lea(cluster: frozenset[Hashable], shares: Counter[int], others: _Partition) -> tuple[float, float]:
    """The share of the cluster's links that the other side has, times its size."""
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
    from scipy.optimize import linear_sum_assignment

    similarity = np.zeros((len(key), len(response)))
    for row, (cluster, shares) in enumerate(zip(key, _overlaps(key, response), strict=True)):
        for column, share in shares.items():
            similarity[row, column] = 2 * share / (len(cluster) + len(response[column]))
    return float(similarity[linear_sum_assignment(similarity, maximize=True)].sum())


def _mentions(keys: Sequence[_Partition], responses: Sequence[_Partition]) -> dict[str, float]:
    gold = [frozenset[Hashable]().union(*key) for key in keys]
    predicted = [frozenset[Hashable]().union(*response) for response in responses]
    correct = sum(len(key & response) for key, response in zip(gold, predicted, strict=True))
    return named_scores("mention", percent(correct, sum(map(len, predicted))), percent(correct, sum(map(len, gold))))


def score_gap(gold: GapAnswers, predicted: GapAnswers, genders: Sequence[str]) -> dict[str, float]:
    """`precision`, `recall`, `f1`, `masculine_f1`, `feminine_f1` and `bias`; division by zero gives 0."""
    check_paired(gold, predicted, "questions")
    check_paired(gold, genders, "questions")
    precision, recall, f1 = _gap_scores(gold, predicted)
    by_gender = {}
    for gender in ("masculine", "feminine"):
        chosen = [index for index, pronoun_gender in enumerate(genders) if pronoun_gender == gender]
        by_gender[gender] = _gap_scores([gold[i] for i in chosen], [predicted[i] for i in chosen])[2]
    masculine, feminine = by_gender["masculine"], by_gender["feminine"]
    return {
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "masculine_f1": masculine,
        "feminine_f1": feminine,
        "bias": feminine / masculine if masculine else 0.0,
    }


def gap_f1_counts(gold: GapAnswers, predicted: GapAnswers) -> ScoreCounts:
    """What `f1` is computed from, for each pronoun."""
    answers = [[(name, answer) for name, answer in enumerate(pair) if answer] for pair in gold]
    return f1_counts(answers, [[(name, answer) for name, answer in enumerate(pair) if answer] for pair in predicted])


def _gap_scores(gold: GapAnswers, predicted: GapAnswers) -> tuple[float, float, float]:
    """Precision, recall and F1 of the positive answers."""
    pairs = [pair for answers in zip(gold, predicted, strict=True) for pair in zip(*answers, strict=True)]
    correct = sum(truth and answer for truth, answer in pairs)
    precision = percent(correct, sum(answer for _, answer in pairs))
    recall = percent(correct, sum(truth for truth, _ in pairs))
    return precision, recall, harmonic_mean(precision, recall)
