"""Links that agree with the whole cluster they lead to: one person, one gender, one name.

Scores compare two mentions at a time. Over a chapter that is enough; over a book one wrong link ("Jane" to a "she" who
is Elizabeth) hands all later mentions of one person to another. So mentions are linked in the order of the text, each
to the best antecedent whose cluster it agrees with: pronouns and titles by gender, names by their words. No link joins
two clusters that exist already, so what agrees stays apart from what does not.

Shapes: M mentions, K scored antecedents of each.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from spanlab.tasks.coref.links import Links, antecedent_probabilities
from spanlab.tasks.coref.pronouns import gender, is_pronoun

_TITLES = {
    "masculine": ("mr", "sir", "lord", "king", "prince", "uncle", "father", "brother", "master", "monsieur", "count"),
    "feminine": ("mrs", "miss", "ms", "lady", "madam", "madame", "queen", "princess", "aunt", "mother", "sister"),
    None: ("dr", "doctor", "captain", "colonel", "general", "major", "professor", "saint", "st", "reverend", "old"),
}
_GENDER_OF_TITLE = {title: name for name, titles in _TITLES.items() for title in titles}
_PARTICLES = frozenset(["the", "of", "de", "la", "von", "van", "and", "a", "an"])
_OPPOSITE = {"masculine": "feminine", "feminine": "masculine"}


@dataclass(frozen=True, kw_only=True)
class Features:
    """What one mention says about who is meant."""

    gender: str | None = None
    name: frozenset[str] = frozenset()
    """The words of a name, without titles; empty for all other mentions."""


def features_of(mention: str) -> Features:
    """The gender of a pronoun or a title, and the words of a name."""
    if is_pronoun(mention):
        return Features(gender=gender(mention))
    words = [word.strip(".,;:!?\"“”‘’'()_-—") for word in mention.removesuffix("'s").removesuffix("’s").split()]
    words = [word for word in words if word]
    titles = [_GENDER_OF_TITLE[word.lower()] for word in words if word.lower() in _GENDER_OF_TITLE]
    named = [word for word in words if word.lower() not in _PARTICLES and word.lower() not in _GENDER_OF_TITLE]
    is_name = bool(named) and all(word[0].isupper() for word in named)
    sexes = [title for title in titles if title is not None]
    return Features(
        gender=sexes[0] if sexes and (is_name or not named) else None,
        name=frozenset(word.lower() for word in named) if is_name else frozenset(),
    )


@dataclass(kw_only=True)
class _Entity:
    """The mentions of a cluster so far."""

    genders: Counter[str] = field(default_factory=Counter)
    names: Counter[frozenset[str]] = field(default_factory=Counter)

    def add(self, features: Features) -> None:
        if features.gender is not None:
            self.genders[features.gender] += 1
        if features.name:
            self.names[features.name] += 1

    def agrees(self, features: Features) -> bool:
        if features.gender is not None:
            other = _OPPOSITE[features.gender]
            if self.genders[other] > self.genders[features.gender]:
                return False
        if not features.name or not self.names or features.name in self.names:
            return True
        usual = self.names.most_common(1)[0][0]
        return features.name <= usual or features.name >= usual


def link_in_agreement(links: Links, mentions: Sequence[str], least_M: NDArray[np.float32]) -> Links:
    """The links, each to the best antecedent that scores above `least_M` and whose cluster it agrees with."""
    order_MK = np.argsort(-links.scores, axis=1, kind="stable")
    antecedents, link_scores = np.full(len(mentions), -1, np.int64), np.zeros(len(mentions), np.float32)
    entities: list[_Entity] = []
    probabilities_MK = antecedent_probabilities(links.scores)
    for mention, spelled in enumerate(mentions):
        features, entity = features_of(spelled), None
        for slot in order_MK[mention].tolist():
            if links.scores[mention, slot] <= least_M[mention]:
                break
            candidate = entities[links.index[mention, slot]]
            if candidate.agrees(features):
                entity = candidate
                antecedents[mention] = links.index[mention, slot]
                link_scores[mention] = probabilities_MK[mention, slot]
                break
        if entity is None:
            entity = _Entity()
            link_scores[mention] = 1.0 - probabilities_MK[mention].sum()
        entity.add(features)
        entities.append(entity)
    return replace(links, antecedents=antecedents, link_scores=link_scores)
