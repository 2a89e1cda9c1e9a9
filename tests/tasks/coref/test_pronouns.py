"""Pronouns of a person have an antecedent: links above a lower threshold, and clusters of pronouns that join a name."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spanlab.tasks.base import FittedState
from spanlab.tasks.coref.config import SMALL
from spanlab.tasks.coref.data import GapQuestion
from spanlab.tasks.coref.decode import build_clusters
from spanlab.tasks.coref.links import Links
from spanlab.tasks.coref.task import THRESHOLD, Coreference
from spanlab.tasks.sample import Sample
from tests.tasks.making import read

NONE = -np.inf


def decode(text: str, mentions: list[str], scores: list[list[float]], threshold: float | None) -> list[list[str]]:
    """The clusters, in words; `scores` of each mention with all earlier ones."""
    features, links = arrays(text, mentions, scores)
    clusters, _, _ = build_clusters(text, features, links, singletons=True, pronoun_threshold=threshold)
    return [[text[start:end] for start, end in cluster] for cluster in clusters]


def arrays(text: str, mentions: list[str], scores: list[list[float]]) -> tuple[dict[str, Any], Links]:
    starts, position = [], 0
    for mention in mentions:
        position = text.index(mention, position)
        starts.append(position)
    count = len(mentions)
    starts_M = np.array(starts)
    ends_M = starts_M + [len(mention) for mention in mentions]
    score_MK = np.full((count, count), NONE, np.float32)
    for row, values in enumerate(scores):
        score_MK[row, : len(values)] = values
    best, highest = score_MK.argmax(1), score_MK.max(1)
    links = Links(
        kept=np.arange(count),
        mention_scores=np.ones(count, np.float32),
        antecedents=np.where(highest > 0, best, -1),
        link_scores=np.full(count, 0.5, np.float32),
        index=np.tile(np.arange(count), (count, 1)),
        scores=score_MK,
    )
    features = {"starts": starts_M, "ends": ends_M, "first": starts_M, "given": np.zeros(count, bool)}
    return features, links


def test_a_pronoun_links_above_its_own_threshold() -> None:
    scores = [[], [-0.5]]
    assert decode("Anna slept. She woke.", ["Anna", "She"], scores, None) == [["Anna"], ["She"]]
    assert decode("Anna slept. She woke.", ["Anna", "She"], scores, 0.0) == [["Anna"], ["She"]]
    assert decode("Anna slept. She woke.", ["Anna", "She"], scores, -1.0) == [["Anna", "She"]]
    # A name that is not linked begins a cluster of its own, whatever the threshold.
    assert decode("Anna slept. Berta woke.", ["Anna", "Berta"], scores, -1.0) == [["Anna"], ["Berta"]]


@pytest.mark.parametrize(
    ("text", "scores", "joined"),
    [
        # The second pronoun links to the first, and scores with the name as well.
        ("Tom He He", [[], [-2], [1, 3]], [["Tom", "He", "He"]]),
        # The name comes after its pronouns.
        ("He He Tom", [[], [3], [-1, -0.5]], [["He", "He", "Tom"]]),
        # Of two names the better one.
        ("Tom Jim He He", [[], [-5], [-1, -1], [2, 1, 3]], [["Tom", "He", "He"], ["Jim"]]),
        # The name has a pronoun of the other gender.
        ("Ann She He He", [[], [4], [-3, -3], [1, -3, 3]], [["Ann", "She"], ["He", "He"]]),
        # I and you are nobody's.
        ("Ann I I", [[], [-1], [1, 3]], [["Ann"], ["I", "I"]]),
    ],
)
def test_pronouns_among_themselves_join_a_name(text: str, scores: list[list[float]], joined: list[list[str]]) -> None:
    alone = decode(text, text.split(), scores, None)
    assert decode(text, text.split(), scores, -0.9) == joined
    assert (alone == joined) == ("Ann" in text)


def test_a_possessor_is_not_what_it_possesses() -> None:
    text, mentions = "his mother slept", ["his", "his mother"]
    features, links = arrays(text, mentions, [[], [0.5]])
    features |= {"starts": np.array([0, 0]), "ends": np.array([3, 10])}
    links = replace(links, antecedents=np.array([-1, -1]))
    clusters, *_ = build_clusters(text, features, links, singletons=True, pronoun_threshold=0.0)
    assert clusters == (((0, 3),), ((0, 10),))


def test_the_threshold_is_tuned_on_dev() -> None:
    text = "Anna slept. She woke."
    (example,) = read(Coreference, [{"text": text, "clusters": [[[0, 4], [12, 15]]]}])
    features, links = arrays(text, ["Anna", "She"], [[], [-1.5]])
    task = Coreference(replace(SMALL, units="word", singletons=False), FittedState())
    sample = Sample(example=0, sequences=(), features=features)
    tuned = task.tune([example], [[sample]], [[links]])
    assert tuned.fitted.thresholds[THRESHOLD] < -1.5
    assert tuned.decode(0, example, [sample], [links]).clusters == (((0, 4), (12, 15)),)
    (apart,) = read(Coreference, [{"text": text, "clusters": [[[0, 4]], [[12, 15]]]}])
    task = Coreference(replace(SMALL, units="word", singletons=True), FittedState())
    assert task.tune([apart], [[sample]], [[links]]).fitted.thresholds.get(THRESHOLD, 0.0) >= -1.0


@pytest.mark.parametrize(
    ("text", "name", "mention", "same"),
    [
        ("Yesterday Ms. Lee spoke of her work", "Lee", "Ms. Lee", True),
        ("Anna Lee, a sailor, spoke of her work", "Anna Lee", "Anna Lee, a sailor,", True),
        ("Lee's brother spoke of her work", "Lee", "Lee's brother", False),
        ("Anna Lee spoke and Miss Lee left with her work", "Miss Lee", "Anna Lee", False),
        ("Anna Lee spoke and Lee left with her work", "Lee", "Anna Lee", True),
        ("Lee spoke and Anna Lee left with her work", "Anna Lee", "Lee", True),
    ],
)
def test_forms_of_a_name(text: str, name: str, mention: str, same: bool) -> None:
    def place(part: str) -> tuple[int, int]:
        return text.index(part), text.index(part) + len(part)

    question = GapQuestion(pronoun=place("her"), names=(place(name), place("work")), gold=None)
    assert question.answer(text, [[place(mention), place("her")]]) == (same, False)


def test_a_form_of_both_names_decides_nothing_that_a_mention_decides() -> None:
    text = "Anna Lee and Berta Lee met; Lee liked her"
    names, lee, her = ((0, 8), (13, 22)), (28, 31), (38, 41)
    question = GapQuestion(pronoun=her, names=names, gold=None)
    assert question.answer(text, [[names[1], lee, her]]) == (False, True)
