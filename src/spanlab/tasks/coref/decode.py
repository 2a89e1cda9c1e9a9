"""Antecedents of mentions to clusters.

Shapes: M kept mentions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Integers
from spanlab.tasks.coref.data import Cluster, Mention
from spanlab.tasks.sample import Arrays


@dataclass(frozen=True, eq=False, kw_only=True)
class Links:
    """The head's output for one document, on the host."""

    kept: Integers
    """(M,) the indices of the kept candidates, in the order of the text."""
    mention_scores: NDArray[np.float32]
    """(M,) logits of being a mention."""
    antecedents: Integers
    """(M,) the index, among the kept, of each one's antecedent; -1 for none."""
    link_scores: NDArray[np.float32]
    """(M,) the probability of that choice."""


def follow_links(antecedents: Integers) -> Integers:
    """(M,) the first mention of each one's chain; an antecedent is an earlier mention, or -1."""
    roots = np.arange(len(antecedents))
    for mention, antecedent in enumerate(antecedents.tolist()):
        if antecedent >= 0:
            roots[mention] = roots[antecedent]
    return roots


def build_clusters(
    text: str, features: Arrays, links: Links, *, singletons: bool
) -> tuple[tuple[Cluster, ...], tuple[float, ...], tuple[Mention, ...]]:
    """Clusters of all linked mentions, their scores, and their mentions in the order of the text.

    With `singletons` also of those that link to nothing and were given, or are more probably a mention than not.
    """
    starts, ends, given = (features[name][links.kept] for name in ("starts", "ends", "given"))
    roots = follow_links(links.antecedents)
    is_linked = np.bincount(roots, minlength=len(roots))[roots] > 1
    chosen = np.flatnonzero(is_linked | (singletons & (given.astype(bool) | (links.mention_scores > 0))))
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
