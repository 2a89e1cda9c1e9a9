"""Results as a table: `to_frame(results)` gives columns that pandas, polars and Arrow take as they are.

A table has a row for each entity, mention, relation or candidate of a mask, and for each text where a task gives one
result a text; every row has the `id` of its text. No library of tables is needed or imported:

    pandas.DataFrame(spanlab.to_frame(results))
    polars.DataFrame(spanlab.to_frame(results))
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from spanlab.errors import InputError, MissingExtraError, clip_repr
from spanlab.inference.fill_result import FillResult
from spanlab.tasks.coref.data import CorefResult, Mention
from spanlab.tasks.ner.data import Entity, NerResult
from spanlab.tasks.relation.data import RelationResult
from spanlab.tasks.relation.triples import Triple, document_triples
from spanlab.tasks.result import Result, Scores, html_table, plain_values

_SHOWN_ROWS = 20
"""In a notebook."""


class Frame(dict[str, list[Any]]):
    """Columns by name, all of one length."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """For whatever reads Arrow: duckdb, pandas.DataFrame.from_arrow, datasets."""
        try:
            import pyarrow
        except ModuleNotFoundError:
            raise MissingExtraError("data", "an Arrow table") from None
        return pyarrow.table(dict(self)).__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        """What a notebook shows: the first rows."""
        rows = list(zip(*self.values(), strict=True))
        more = f"<p>and {len(rows) - _SHOWN_ROWS} more rows</p>" if len(rows) > _SHOWN_ROWS else ""
        return html_table(tuple(self), rows[:_SHOWN_ROWS]) + more


def to_frame(results: Result | FillResult | Scores | Iterable[Any]) -> Frame:
    """The columns of results of one task, of filled masks or of scores."""
    items = [results] if isinstance(results, Result | FillResult | Scores) else list(results)
    if not items:
        return Frame()
    first = items[0]
    if isinstance(first, Mapping):
        known = ", ".join(map(str, first))
        fix = f"choose one task of {known}: [result[{next(iter(first), '')!r}] for result in results]"
        raise InputError("these are results of several tasks, which have different columns", fix=fix)
    names = _columns(first)
    rows = [row for index, item in enumerate(items) for row in _rows(item, index)]
    return Frame({name: [row.get(name) for row in rows] for name in names})


def _columns(result: object) -> tuple[str, ...]:
    match result:
        case NerResult():
            return ("id", *(field.name for field in fields(Entity)))
        case CorefResult():
            return ("id", *(field.name for field in fields(Mention)))
        case RelationResult():
            return ("id", *(field.name for field in fields(Triple) if field.name != "source"))
        case FillResult():
            return ("id", "start", "end", "head", "token", "text", "probability")
        case Scores():
            return ("task", "count", "metric", "value")
        case Result():
            return tuple(_flat(result))
    raise InputError(f"{clip_repr(result)} is no result", fix="give what predict returned")


def _rows(result: Any, index: int) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401 (any result)
    match result:
        case NerResult():
            yield from ({"id": result.id, **plain_values(entity)} for entity in result.spans)
        case CorefResult():
            yield from ({"id": result.id, **plain_values(mention)} for mention in result.mentions)
        case RelationResult():
            triples = document_triples(result, result.clusters)
            yield from ({"id": result.id, **plain_values(triple)} for triple in triples)
        case FillResult():
            yield from ({"id": str(index), **row} for row in _candidates(result))
        case Scores():
            about = {"task": result.task, "count": result.count}
            yield from ({**about, "metric": name, "value": value} for name, value in result.metrics.items())
        case _:
            yield _flat(result)


def _flat(result: Result) -> dict[str, Any]:
    """The values of a result that fit a cell; of several labels their list."""
    return {
        name: value
        for name, value in result.to_dict().items()
        if not isinstance(value, Mapping) and (name == "labels" or not isinstance(value, list))
    }


def _candidates(result: FillResult) -> Iterator[dict[str, Any]]:
    for run in result.runs:
        for mask in run.places:
            for head, candidates in (("mlm", mask.mlm), ("sbo", mask.sbo or ())):
                for candidate in candidates:
                    values = {"token": candidate.token, "text": candidate.text, "probability": candidate.probability}
                    yield {"start": mask.start, "end": mask.end, "head": head, **values}
