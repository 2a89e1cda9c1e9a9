"""The interface of the relation extraction heads, from the samples of a text to its relations.

A window has all spans inside it, so two entities are scored as a pair in every window that contains both.

Shapes: N tokens, P pairs, R relations.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Flags, Integers
from spanlab.errors import InputError, did_you_mean
from spanlab.tasks.base import FittedState
from spanlab.tasks.host_head import HostHead, by_row, one_graph
from spanlab.tasks.ner.data import Entity
from spanlab.tasks.relation.config import RelationConfig
from spanlab.tasks.relation.data import RelationExample, ScoredRelation, TextRelation
from spanlab.tasks.sample import Sample
from spanlab.tasks.spans.units import tokens_in_spans
from spanlab.tasks.windows import Windower
from spanlab.text.tokens import Tokens

if TYPE_CHECKING:
    from spanlab.encoder import Encoder
    from spanlab.tasks.head import Head


class RelationMethod(ABC):
    """Encoding, layers and decoding of one head; a row of `HEADS` in `task.py`."""

    predicts_entities: ClassVar[bool] = False
    """If false, entities come with the text."""
    has_threshold: ClassVar[bool] = True
    """Whether each relation is decided by itself, above a threshold tuned on dev."""

    def __init__(self, config: RelationConfig, fitted: FittedState) -> None:
        self.config, self.fitted = config, fitted

    @abstractmethod
    def encode(self, examples: Sequence[RelationExample], windower: Windower, *, labelled: bool) -> Iterator[Sample]:
        """The samples of the examples."""

    @abstractmethod
    def layers(self, encoder: "Encoder") -> "Head":
        """Newly initialised layers."""

    @property
    def host_head(self) -> HostHead:
        """What these layers do on the host; by default a row of logits a sample."""
        return one_graph(by_row)

    @abstractmethod
    def decode(
        self, example: RelationExample, samples: Sequence[Sample], outputs: Sequence[Any]
    ) -> tuple[tuple[Entity, ...], tuple[ScoredRelation, ...]]:
        """The entities of a text, and every relation that some threshold would keep."""


def given_entities(example: RelationExample) -> tuple[Entity, ...]:
    """The entities that came with the text, in their order."""
    return tuple(
        Entity(
            start=entity.start,
            end=entity.end,
            label=entity.label,
            text=example.text[entity.start : entity.end],
            score=1.0,
        )
        for entity in example.entities or ()
    )


def check_entity_label(label: str, known: Sequence[str]) -> None:
    """Reject a label of a given entity that is not in the training data."""
    if label not in known:
        cause = f"unknown entity label '{label}'{did_you_mean(label, known)}"
        raise InputError(cause, fix=f"use one of {', '.join(known)}")


def all_pairs(count: int) -> tuple[Integers, Integers]:
    """(P,) and (P,): heads and tails of all ordered pairs of different indices below `count`."""
    heads, tails = np.divmod(np.arange(count * count, dtype=np.int64), max(1, count))
    different = heads != tails
    return heads[different], tails[different]


def relation_targets(
    heads: Integers, tails: Integers, relations: Sequence[TextRelation], labels: Sequence[str]
) -> NDArray[np.float32]:
    """(P, R) which relations hold for pairs of entity indices."""
    targets = np.zeros((len(heads), len(labels)), np.float32)
    index = {pair: index for index, pair in enumerate(zip(heads.tolist(), tails.tolist(), strict=True))}
    for relation in relations:
        pair = (relation.head, relation.tail)
        if pair in index:
            targets[index[pair], labels.index(relation.label)] = 1.0
    return targets


def entity_tokens(tokens: Tokens, example: RelationExample) -> Flags:
    """(N,) the tokens of the entities that came with a text."""
    return tokens_in_spans(tokens, ((entity.start, entity.end) for entity in example.entities or ()))
