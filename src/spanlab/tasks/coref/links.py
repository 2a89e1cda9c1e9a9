"""Links to clusters: what the head chose for each mention, and the groups that these choices join.

What enters is for each kept mention the earlier one it refers to, or none; what leaves are clusters in the order of
their first mentions, with the characters they cover.

Shapes: M mentions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spanlab.tasks.coref.decode import Mention
from spanlab.tasks.sample import Arrays

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Links:
    """What the head says of one document, on the host."""

    kept: Integers
    """(M,) the numbers of the kept candidates, in the order of the text."""
    mention_scores: NDArray[np.float32]
    """(M,) logits of being a mention."""
    antecedents: Integers
    """(M,) the number, among the kept, of what each refers to; -1 for nothing."""
    link_scores: NDArray[np.float32]
    """(M,) the probability of that choice."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """The clusters of a document."""

    clusters: tuple[tuple[tuple[int, int], ...], ...]
    scores: tuple[float, ...]
    mentions: tuple[Mention, ...]


def follow_links(antecedents: Integers) -> Integers:
    """(M,) the first mention of each one's chain; an antecedent is an earlier mention, or -1."""
    roots = np.arange(len(antecedents))
    for number, antecedent in enumerate(antecedents.tolist()):
        if antecedent >= 0:
            roots[number] = roots[antecedent]
    return roots


def join_links(text: str, features: Arrays, links: Links, *, singletons: bool) -> Found:
    """Clusters of all mentions that link; with `singletons` also those that are probably mentions, or were given."""
    starts, ends, sure = (features[name][links.kept] for name in ("starts", "ends", "sure"))
    roots = follow_links(links.antecedents)
    linked = np.bincount(roots, minlength=len(roots))[roots] > 1
    told = linked | (singletons & (sure.astype(bool) | (links.mention_scores > 0)))
    order = np.flatnonzero(told)
    order = order[np.lexsort((ends[order], starts[order]))]
    numbers: dict[int, int] = {}
    members: list[list[int]] = []
    mentions = []
    for place in order.tolist():
        number = numbers.setdefault(int(roots[place]), len(members))
        if number == len(members):
            members.append([])
        members[number].append(place)
        start, end = int(starts[place]), int(ends[place])
        score = round(float(links.link_scores[place]), 6)
        mentions.append(Mention(start=start, end=end, text=text[start:end], score=score, cluster=number))
    clusters = tuple(tuple((int(starts[place]), int(ends[place])) for place in places) for places in members)
    scores = tuple(_cluster_score(links, places) for places in members)
    return Found(clusters=clusters, scores=scores, mentions=tuple(mentions))


def _cluster_score(links: Links, places: Sequence[int]) -> float:
    """The mean probability of the links; of a single mention, that of being one."""
    linked = [float(links.link_scores[place]) for place in places if links.antecedents[place] >= 0]
    if not linked:
        return round(float(1 / (1 + np.exp(-links.mention_scores[places[0]]))), 6)
    return round(sum(linked) / len(linked), 6)
