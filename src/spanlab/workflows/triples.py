"""Predicted relations as a file of triples; the clusters of a coreference model link their entities."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from spanlab.errors import InputError
from spanlab.inference.predictor import Predictor
from spanlab.tasks.relation.data import RelationResult
from spanlab.tasks.relation.triples import Clusters, TripleFile
from spanlab.tasks.result import Result

_BATCH = 256
"""Documents whose clusters are predicted at once."""


def write_triples(results: Iterator[Result], path: Path, coref: Predictor | None = None) -> Iterator[Result]:
    """Pass results through and write their relations to a file, which is complete after the last result."""
    name = None if coref is None else coref_task(coref)
    with TripleFile(path) as file:
        while batch := list(islice(results, _BATCH)):
            for result, clusters in zip(batch, _clusters(batch, coref, name), strict=True):
                assert isinstance(result, RelationResult)
                file.add(result, clusters)
                yield result


def coref_task(predictor: Predictor) -> str:
    """The name of a model's coreference task."""
    for name, task in predictor.model.tasks.items():
        if task.name == "coref":
            return name
    raise InputError(
        "not a coreference model", path=predictor.model.folder, fix="train one with spanlab finetune coref"
    )


def _clusters(batch: list[Result], coref: Predictor | None, name: str | None) -> list[Clusters]:
    if coref is None:
        return [()] * len(batch)
    texts = [result.source for result in batch if isinstance(result, RelationResult)]
    return [result.to_dict()["clusters"] for result in coref.predict(texts, task=name)]
