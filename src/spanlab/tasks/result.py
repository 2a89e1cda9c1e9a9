"""The result of one input and the scores of an evaluation: frozen, typed, convertible to JSON."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from html import escape
from typing import Any, TypedDict

from spanlab.metrics.classification import ConfusionMatrix
from spanlab.metrics.precision_recall import LabelScores
from spanlab.tasks.sample import Sample

CORRELATIONS = ("mcc", "pearson", "spearman")
"""The metrics from -1 to 1; all others are percentages."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """The fields of every result; offsets count characters of the user's string."""

    id: str
    """The input's id, or its index from 0."""
    windows: int = 1
    """The number of windows the input was cut into; 0 if it has no text."""
    truncated: bool = False
    """Whether text was truncated, which happens only on request."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values under the names of the attributes, `id` first."""
        plain = plain_values(self)
        assert isinstance(plain, dict)
        return plain

    def to_html(self) -> str:
        """The result as a piece of HTML, everything escaped."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return self.to_html()


class CommonFields(TypedDict):
    """The fields that all results have."""

    id: str
    windows: int
    truncated: bool


def common_fields(index: int, example_id: str | None, samples: Sequence[Sample]) -> CommonFields:
    """The common fields of the result of example `index`, one window per sample."""
    truncated = any(sample.truncated for sample in samples)
    return CommonFields(id=result_id(index, example_id), windows=len(samples), truncated=truncated)


def empty_fields(index: int, example_id: str | None) -> CommonFields:
    """The common fields of the result of an input without text."""
    return CommonFields(id=result_id(index, example_id), windows=0, truncated=False)


def result_id(index: int, example_id: str | None) -> str:
    """The id of the example; without one, its index in the input."""
    return str(index) if example_id is None else example_id


@dataclass(frozen=True, kw_only=True)
class Scores:
    """An evaluation: percentages 0 to 100, correlations -1 to 1."""

    task: str
    count: int
    """Examples that were scored."""
    metrics: Mapping[str, float]
    per_label: Mapping[str, LabelScores] = field(default_factory=dict)
    """By label, for the model card and the report."""
    confusion: ConfusionMatrix | None = None
    """Where each example has one label; for the report."""
    remarks: tuple[str, ...] = ()
    """What a reader of the scores should know about the files, in a line each."""

    def to_dict(self) -> dict[str, Any]:
        """As `evaluate --json` prints it."""
        return {"task": self.task, "count": self.count, "metrics": dict(self.metrics)}

    def _repr_html_(self) -> str:
        """What a notebook shows: a table of the metrics, and of those of each label."""
        rows = [("examples", f"{self.count}"), *((name, f"{value:.2f}") for name, value in self.metrics.items())]
        labels = [
            (label, *(f"{value:.2f}" for value in (row.precision, row.recall, row.f1)), f"{row.support}")
            for label, row in self.per_label.items()
        ]
        by_label = html_table(("label", "precision", "recall", "f1", "support"), labels) if labels else ""
        return html_table((self.task, ""), rows) + by_label


def html_table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table, everything escaped; numbers with four digits, None as an empty cell."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else escape("" if value is None else str(value))


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A wrong result, for a report."""

    badness: float
    """How confident the model was of the wrong answer; reports list the highest first."""
    shown: str
    """The input, as HTML."""
    gold: str
    predicted: str


def plain_values(value: Any) -> Any:  # noqa: ANN401 (anything a result holds)
    """Dataclasses as mappings, tuples as lists; a field whose metadata says `json: False` is left out."""
    if is_dataclass(value) and not isinstance(value, type):
        shown = (f for f in fields(value) if f.metadata.get("json", True))
        return {f.name: plain_values(getattr(value, f.name)) for f in shown}
    if isinstance(value, Mapping):
        return {key: plain_values(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain_values(item) for item in value]
    return value
