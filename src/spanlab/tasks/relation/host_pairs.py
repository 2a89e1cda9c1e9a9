"""What the heads with scored pairs do on the host: choose entities and their pairs, and read the pairs' logits.

Shapes: S spans, L entity labels with "none" first, P pairs, R relations.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Integers
from spanlab.tasks.host_head import LOGITS, Array, EncodedSample, HostHead, Layers, by_feature
from spanlab.tasks.probabilities import sigmoid, softmax
from spanlab.tasks.relation.decode import PredictedEntities, ScoredPairs
from spanlab.tasks.relation.method import all_pairs
from spanlab.tasks.sample import SampleBatch
from spanlab.tasks.spans.pruning import Conflict, without_conflicts

ENTITIES, RELATIONS = "entities", "relations"
"""The graphs of a joint head."""
_MAX_PAIRS = 4096
"""Pairs in a run of the graph: their vectors are in memory at once."""


def given_pairs(relations: int) -> HostHead:
    """The head of pairs that are features of the sample."""

    def output(layers: Layers, encoded: EncodedSample) -> ScoredPairs:
        logits_PR = _run_pairs(layers, LOGITS, encoded.inputs, relations)
        return scored_pairs(logits_PR, encoded.as_batch)[0]

    return output


def joint_pairs(relations: int, conflict: Conflict) -> HostHead:
    """The head that chooses entities among the sample's spans, and scores all of their pairs."""

    def output(layers: Layers, encoded: EncodedSample) -> ScoredPairs:
        inputs = encoded.inputs
        (logits_SL,) = layers(ENTITIES, inputs)
        (entities,) = predict_entities(logits_SL, encoded.as_batch, conflict)
        heads, tails = entity_pairs(entities)
        types_S = np.zeros(len(logits_SL), np.int64)
        types_S[entities.spans] = entities.labels
        pairs = {"types": types_S, "heads": heads, "tails": tails}
        logits_PR = _run_pairs(layers, RELATIONS, inputs | pairs, relations)
        return scored_entity_pairs(logits_PR, [entities])[0]

    return output


def scored_pairs(logits_PR: NDArray[np.float32], batch: SampleBatch) -> list[ScoredPairs]:
    """The given pairs of each sample with their probabilities."""
    return [
        ScoredPairs(
            heads=sample.features["heads"].astype(np.int64),
            tails=sample.features["tails"].astype(np.int64),
            scores=_probabilities(logits),
        )
        for sample, logits in zip(batch.samples, by_feature("heads")(logits_PR, batch), strict=True)
    ]


def scored_entity_pairs(logits_PR: NDArray[np.float32], predicted: Sequence[PredictedEntities]) -> list[ScoredPairs]:
    """The pairs of each sample's predicted entities with their probabilities."""
    pairs = [entity_pairs(entities) for entities in predicted]
    parts = np.split(logits_PR, np.cumsum([len(heads) for heads, _ in pairs])[:-1])
    return [
        ScoredPairs(heads=heads, tails=tails, scores=_probabilities(logits), entities=entities)
        for (heads, tails), logits, entities in zip(pairs, parts, predicted, strict=True)
    ]


def predict_entities(
    logits_SL: NDArray[np.float32], batch: SampleBatch, conflict: Conflict
) -> tuple[PredictedEntities, ...]:
    """The labelled candidates of each sample, none in conflict with one of a higher score."""
    probability_SL = softmax(logits_SL)
    label_S, score_S = probability_SL.argmax(axis=-1), probability_SL.max(axis=-1, initial=0.0).astype(np.float32)
    split = by_feature("first")
    predicted = []
    for sample, labels, scores in zip(batch.samples, split(label_S, batch), split(score_S, batch), strict=True):
        labelled = np.flatnonzero(labels > 0)
        starts, ends = (sample.features[name].astype(np.int64)[labelled] for name in ("starts", "ends"))
        spans = labelled[without_conflicts(starts, ends - 1, scores[labelled], conflict=conflict)]
        predicted.append(PredictedEntities(spans=spans, labels=labels[spans], scores=scores[spans]))
    return tuple(predicted)


def entity_pairs(entities: PredictedEntities) -> tuple[Integers, Integers]:
    """(P,) and (P,): heads and tails of all pairs of a sample's entities, by the index of their spans."""
    heads, tails = all_pairs(len(entities.spans))
    return entities.spans[heads], entities.spans[tails]


def _run_pairs(layers: Layers, graph: str, inputs: Mapping[str, Array], relations: int) -> NDArray[np.float32]:
    """(P, R) logits, some pairs at a time."""
    logits: list[Array] = [np.zeros((0, relations), np.float32)]
    for start in range(0, len(inputs["heads"]), _MAX_PAIRS):
        part = {name: inputs[name][start : start + _MAX_PAIRS] for name in ("heads", "tails")}
        logits += layers(graph, {**inputs, **part})
    return np.concatenate(logits)


def _probabilities(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    return sigmoid(logits).astype(np.float32)
