"""Predicted relations, on their way out, also to a file of triples; a coreference model joins their entities."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from spanlab.errors import InputError
from spanlab.inference.predictor import Predictor
from spanlab.tasks.relation.data import RelationResult
from spanlab.tasks.relation.triples import Clusters, TripleFile
from spanlab.tasks.result import Result

_PORTION = 256
"""Documents whose clusters are predicted at once."""


def keep_triples(results: Iterator[Result], path: Path, coref: Predictor | None = None) -> Iterator[Result]:
    """The same results; their relations are in the file once the last has come out."""
    name = None if coref is None else coref_task(coref)
    with TripleFile(path) as file:
        while portion := list(islice(results, _PORTION)):
            for result, clusters in zip(portion, _clusters(portion, coref, name), strict=True):
                assert isinstance(result, RelationResult)
                file.add(result, clusters)
                yield result


def coref_task(predictor: Predictor) -> str:
    """The name of a model's coreference task."""
    for name, task in predictor.model.tasks.items():
        if task.name == "coref":
            return name
    raise InputError("not a coreference model", path=predictor.model.folder, fix="train one by spanlab finetune coref")


def _clusters(portion: list[Result], coref: Predictor | None, name: str | None) -> list[Clusters]:
    if coref is None:
        return [()] * len(portion)
    texts = [result.source for result in portion if isinstance(result, RelationResult)]
    return [found.to_dict()["clusters"] for found in coref.predict(texts, task=name)]
