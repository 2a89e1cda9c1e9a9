"""What keeps people apart over a book: the reach of pronouns."""

import numpy as np
import pytest

from spanlab.tasks.coref.decode import build_clusters
from spanlab.tasks.coref.links import Links, antecedent_probabilities

NONE = -np.inf


def links(scores: list[list[float]]) -> Links:
    """Every mention's scores of all before it, the nearest last."""
    count = len(scores)
    table = np.full((count, count), NONE, np.float32)
    for mention, row in enumerate(scores):
        table[mention, : len(row)] = row
    index = np.tile(np.arange(count), (count, 1))
    empty = np.zeros(count, np.float32)
    return Links(
        kept=np.arange(count), mention_scores=empty + 1, antecedents=np.full(count, -1), link_scores=empty,
        index=index, scores=table,
    ).best()  # fmt: skip


def clusters(mentions: list[str], scores: list[list[float]], gap: int = 1, **options: object) -> list[list[str]]:
    """The clusters, of mentions that are `gap` tokens apart, in words."""
    text = " ".join(mentions)
    starts = np.cumsum([0, *(len(mention) + 1 for mention in mentions[:-1])])
    features = {
        "starts": starts,
        "ends": starts + [len(mention) for mention in mentions],
        "given": np.zeros(len(mentions), bool),
        "first": gap * np.arange(len(mentions)),
    }
    found, _, _ = build_clusters(text, features, links(scores), singletons=False, **options)  # type: ignore[arg-type]
    return [[text[start:end] for start, end in cluster] for cluster in found]


def test_the_choice_and_its_probability() -> None:
    chosen = links([[], [2.0], [1.0, -1.0], [-3.0, -1.0, -2.0]])
    assert chosen.antecedents.tolist() == [-1, 0, 0, -1]
    weights = np.exp([0.0, 1.0, -1.0])
    assert chosen.link_scores[2] == pytest.approx(weights[1] / weights.sum())
    weights = np.exp([0.0, -3.0, -1.0, -2.0])
    assert chosen.link_scores[3] == pytest.approx(weights[0] / weights.sum())
    assert chosen.link_scores[0] == pytest.approx(1.0)
    assert antecedent_probabilities(np.array([[800.0, NONE]], np.float32)).tolist() == [[1.0, 0.0]]


def test_a_pronoun_reaches_only_so_far_back_and_a_name_any_distance() -> None:
    mentions, scores = ["Ann", "she", "Ann", "she"], [[], [3.0], [4.0, 1.0], [1.0, 5.0, 2.0]]
    assert clusters(mentions, scores, gap=100) == [["Ann", "she", "Ann", "she"]]
    far = [[], [3.0], [4.0, 1.0], [1.0, 5.0, NONE]]
    assert clusters(mentions, far, gap=100, pronoun_reach=150) == [["Ann", "she", "Ann"]]
    assert clusters(mentions, far, gap=100, pronoun_reach=200) == [["Ann", "she", "Ann", "she"]]
    assert clusters(mentions, scores, gap=100, pronoun_reach=99) == [["Ann", "Ann"]]


def test_without_options_nothing_changes() -> None:
    mentions, scores = ["Ann", "he", "Ben", "Ann"], [[], [1.0], [0.5, 2.0], [1.0, 3.0, 2.0]]
    assert clusters(mentions, scores) == [mentions]
