"""Antecedents of mentions to clusters.

A third-person pronoun of a person is almost never the first mention of somebody. With a threshold, which is tuned on
dev, such a pronoun has an antecedent as soon as the best one scores above it, instead of above 0, the score of having
none; and a cluster of such pronouns alone joins that of the name or noun that any of them scores best with, before or
after it, unless the genders of the pronouns differ.

Shapes: M kept mentions, K scored antecedents of each, P pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Integers
from spanlab.tasks.coref.data import Cluster, Mention
from spanlab.tasks.coref.links import Links, follow_links
from spanlab.tasks.coref.pronouns import gender, is_pronoun
from spanlab.tasks.sample import Arrays


def build_clusters(
    text: str,
    features: Arrays,
    links: Links,
    *,
    singletons: bool,
    pronoun_threshold: float | None = None,
    pronoun_reach: int = 0,
) -> tuple[tuple[Cluster, ...], tuple[float, ...], tuple[Mention, ...]]:
    """Clusters of all linked mentions, their scores, and their mentions in the order of the text.

    With `singletons` also of those that link to nothing and were given, or are more probably a mention than not.
    Without `pronoun_threshold`, pronouns are treated like all other mentions. Pronouns find an antecedent at most
    `pronoun_reach` tokens back; 0 is any distance.
    """
    starts: Integers = features["starts"][links.kept].astype(np.int64)
    ends: Integers = features["ends"][links.kept].astype(np.int64)
    is_mention = features["given"][links.kept].astype(bool) | (links.mention_scores > 0)
    pronouns = _Pronouns.of(text, starts, ends, is_mention)
    if pronoun_reach:
        spelled = (text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True))
        reach_M = np.where([is_pronoun(mention) for mention in spelled], pronoun_reach, np.iinfo(np.int64).max)
        links = links.within(features["first"][links.kept].astype(np.int64), reach_M)
    if pronoun_threshold is not None:
        pronouns = _Pronouns.of(text, starts, ends, is_mention)
        links = _link_pronouns(links, pronouns, pronoun_threshold)
        roots = _join_pronouns(follow_links(links.antecedents), links, pronouns, pronoun_threshold)
    else:
        roots = follow_links(links.antecedents)
    is_linked = np.bincount(roots, minlength=len(roots))[roots] > 1
    chosen = np.flatnonzero(is_linked | (singletons & is_mention))
    cluster_of_root: dict[int, int] = {}
    members: list[list[int]] = []
    mentions = []
    for mention in chosen[np.lexsort((ends[chosen], starts[chosen]))].tolist():
        cluster = cluster_of_root.setdefault(int(roots[mention]), len(members))
        if cluster == len(members):
            members.append([])
        members[cluster].append(mention)
        start, end = int(starts[mention]), int(ends[mention])
        score = round(float(links.link_scores[mention]), 6)
        mentions.append(Mention(start=start, end=end, text=text[start:end], score=score, cluster=cluster))
    clusters = tuple(tuple((int(starts[m]), int(ends[m])) for m in cluster) for cluster in members)
    return clusters, tuple(_cluster_score(links, cluster) for cluster in members), tuple(mentions)


def _cluster_score(links: Links, cluster: Sequence[int]) -> float:
    """The mean probability of the links; of a single mention, that of being one."""
    linked = [float(links.link_scores[mention]) for mention in cluster if links.antecedents[mention] >= 0]
    if not linked:
        return round(float(1 / (1 + np.exp(-links.mention_scores[cluster[0]]))), 6)
    return round(sum(linked) / len(linked), 6)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Pronouns:
    """What matters for pronouns, of all kept mentions."""

    starts: Integers
    ends: Integers
    genders: NDArray[np.int64]
    """(M,) 1 masculine, 2 feminine, 0 for all that is no third-person pronoun of a person, or no mention."""
    is_nominal: NDArray[np.bool_]
    """(M,) mentions that are no pronoun."""

    @classmethod
    def of(cls, text: str, starts: Integers, ends: Integers, is_mention: NDArray[np.bool_]) -> "_Pronouns":
        codes = {"masculine": 1, "feminine": 2}
        spelled = [text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        genders = np.array([codes.get(gender(mention) or "", 0) for mention in spelled], np.int64)
        nominal = np.array([not is_pronoun(mention) for mention in spelled], bool)
        return cls(starts=starts, ends=ends, genders=genders * is_mention, is_nominal=nominal & is_mention)


def _link_pronouns(links: Links, pronouns: _Pronouns, threshold: float) -> Links:
    """Pronouns of a person without an antecedent get their best one, if it scores above the threshold."""
    if not links.index.size:
        return links
    best_M = links.scores.argmax(axis=1)
    score_M = np.take_along_axis(links.scores, best_M[:, None], axis=1)[:, 0]
    rows = np.flatnonzero((pronouns.genders > 0) & (links.antecedents < 0) & (score_M > threshold))
    antecedents, link_scores = links.antecedents.copy(), links.link_scores.copy()
    antecedents[rows] = links.index[rows, best_M[rows]]
    link_scores[rows] *= np.exp(score_M[rows])  # from the probability of none, whose score is 0, to that of the best
    return replace(links, antecedents=antecedents, link_scores=link_scores)


def _join_pronouns(roots: Integers, links: Links, pronouns: _Pronouns, threshold: float) -> Integers:
    """(M,) the roots, after clusters of pronouns of a person have joined those of names and nouns."""
    alone = np.bincount(roots, weights=pronouns.genders == 0, minlength=len(roots)) == 0
    is_alone = alone[roots]
    first_P, slot_P = np.nonzero(links.scores > threshold)
    second_P, score_P = links.index[first_P, slot_P], links.scores[first_P, slot_P]
    forward = is_alone[first_P] & pronouns.is_nominal[second_P]
    backward = is_alone[second_P] & pronouns.is_nominal[first_P]
    pronoun_P = np.concatenate([first_P[forward], second_P[backward]])
    nominal_P = np.concatenate([second_P[forward], first_P[backward]])
    joined = roots.copy()
    waiting = set(roots[is_alone].tolist())
    for pair in np.argsort(-np.concatenate([score_P[forward], score_P[backward]]), kind="stable").tolist():
        pronoun, nominal = int(pronoun_P[pair]), int(nominal_P[pair])
        root, target = int(roots[pronoun]), int(joined[nominal])
        apart = pronouns.ends[nominal] <= pronouns.starts[pronoun] or pronouns.ends[pronoun] <= pronouns.starts[nominal]
        if root in waiting and apart and _agree(pronouns.genders[joined == target], pronouns.genders[roots == root]):
            joined[roots == root] = target
            waiting.remove(root)
    return joined


def _agree(first: NDArray[np.int64], second: NDArray[np.int64]) -> bool:
    """Whether the pronouns of two clusters are all of one gender."""
    return len({*first[first > 0].tolist(), *second[second > 0].tolist()}) <= 1
