"""The base class of a task; that of its head is in `head.py`.

A task file reads top to bottom: Config, read, encode, head, decode, score. The rest is the same for all tasks:

    rows of a file ──problems, parse──▶ examples ──fit──▶ the task with its labels
    examples ──encode──▶ samples ──(encoder, Head)──▶ outputs ──decode──▶ results ──score──▶ scores

Training draws samples; prediction goes through the same encode, Head and decode; evaluation on dev is prediction.

All but the head works on the host, without torch: files are checked, predictions scored and exported models run where
torch is not installed. So a task imports its head's layers in `head`, and torch's types only for annotations.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from spanlab.metrics.score_counts import ScoreCounts
from spanlab.tasks.config import TaskConfig
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.host_head import HostHead, by_row, one_graph
from spanlab.tasks.result import Mistake, Result, Scores
from spanlab.tasks.sample import Sample
from spanlab.tasks.validation import Problem
from spanlab.tasks.windows import Windower

if TYPE_CHECKING:
    from spanlab.encoder import Encoder
    from spanlab.tasks.head import Head

Example = TypeVar("Example")
Outcome = TypeVar("Outcome", bound=Result)


@dataclass(frozen=True, kw_only=True)
class FittedState:
    """What a task takes from its training and dev data besides weights; kept in `spanlab.json`."""

    labels: tuple[str, ...] = ()
    """The predicted labels, in the order of the head's outputs."""
    entity_labels: tuple[str, ...] = ()
    """A second label set: entity types of relations, genres of coreference."""
    label_counts: tuple[int, ...] = ()
    """Occurrences of each label in the training data; for class weights and the model card."""
    thresholds: dict[str, float] = field(default_factory=dict)
    """Tuned on dev, and used in evaluation, prediction and serving alike."""


class Task(Generic[Example, Outcome]):
    """One task with its settings and what was fitted on its data; the weights are in the head."""

    name: ClassVar[str]
    Config: ClassVar[type[TaskConfig]]
    shape: ClassVar[FileShape]
    """Which file formats hold its examples, and the names of their fields."""

    config: Any
    fitted: FittedState

    def __init__(self, config: Any, fitted: FittedState) -> None:  # noqa: ANN401 (an instance of Config)
        """`config` and `fitted` as `fit` made them, or as read from a model folder."""
        self.config, self.fitted = config, fitted

    @property
    def primary(self) -> str:
        """The metric by which the best model is kept; higher is better."""
        return "f1"

    # ---- read

    @classmethod
    def problems(cls, row: Row, *, labelled: bool = True) -> Iterator[Problem]:
        """Everything wrong with a row; without `labelled`, only with its input."""
        raise NotImplementedError

    @classmethod
    def parse(cls, row: Row, *, labelled: bool) -> Example:
        """The example of a row without serious problems; without `labelled` its labels are ignored."""
        raise NotImplementedError

    @classmethod
    def read(cls, row: Row, *, labelled: bool) -> Example:
        """The example of a row; its first serious problem is raised as an error, an empty text only if `labelled`."""
        if not labelled:
            row = _with_empty_texts(row, cls.shape)
        for problem in cls.problems(row, labelled=labelled):
            if problem.serious and (labelled or not problem.empty):
                raise problem.error(row)
        return cls.parse(row, labelled=labelled)

    @classmethod
    def fit(cls, config: Any, examples: Sequence[Example]) -> Self:  # noqa: ANN401
        """The task with the labels of the training examples, and with the settings that depend on them."""
        return cls(config, FittedState())

    @classmethod
    def gold_labels(cls, example: Example) -> Iterable[str]:
        """The labels a model must know to be trained or scored on this example."""
        return ()

    def is_empty(self, example: Example) -> bool:
        """Whether an input lacks a text, so that there is nothing to predict: its result is `empty_result`."""
        return not all(getattr(example, name).strip() for name in self.shape.required)

    def save_files(self, folder: Path) -> None:
        """Write files that the task needs beside weights and settings into a folder of its own; by default none."""

    def load_files(self, folder: Path) -> None:
        """Read what `save_files` wrote."""

    def check_fitted(self) -> None:
        """Raise where settings, labels and thresholds, as a folder has them, are none that `fit` leaves together."""

    def notes(self, config: Any, dev: Sequence[Example]) -> list[str]:  # noqa: ANN401
        """Notes before training: what `fit` changed in `config`, and what of dev cannot be predicted."""
        return []

    # ---- encode

    def encode(self, examples: Sequence[Example], windower: Windower, *, labelled: bool) -> list[Sample]:
        """The samples of the examples, in order, those of one example adjacent; with targets if `labelled`."""
        raise NotImplementedError

    # ---- head

    def head(self, encoder: "Encoder") -> "Head":
        """Newly initialised layers for this task on this encoder."""
        raise NotImplementedError

    @property
    def host_head(self) -> HostHead:
        """What its head does on the host, where an exported model computes its layers; by default a row a sample."""
        return one_graph(by_row)

    # ---- decode

    def decode(self, index: int, example: Example, samples: Sequence[Sample], outputs: Sequence[Any]) -> Outcome:
        """The result of example `index` from the outputs of its samples, windows merged."""
        raise NotImplementedError

    def empty_result(self, index: int, example: Example) -> Outcome:
        """The result of an input without text: no label, no span, no answer; 0 windows."""
        raise NotImplementedError

    def tune(
        self, examples: Sequence[Example], samples: Sequence[Sequence[Sample]], outputs: Sequence[Sequence[Any]]
    ) -> Self:
        """The task with thresholds tuned on dev; by default there are none."""
        return self

    # ---- score

    def read_result(self, row: Row, index: int, example: Example) -> Outcome:
        """The prediction of any system for `example`, read from a file."""
        raise NotImplementedError

    def missing_result(self, index: int, example: Example) -> Outcome | None:
        """What counts in place of a prediction that a file does not have; None: it must have all."""
        return None

    def score(self, examples: Sequence[Example], results: Sequence[Outcome]) -> Scores:
        """The task's metrics."""
        raise NotImplementedError

    def score_counts(self, examples: Sequence[Example], results: Sequence[Outcome]) -> ScoreCounts:
        """What `primary` is computed from, a row for each example; by default it is the mean of their own scores."""
        scores = [
            self.score([example], [result]).metrics[self.primary]
            for example, result in zip(examples, results, strict=True)
        ]
        return ScoreCounts.of_scores(self.primary, scores)

    def document(self, example: Example) -> str | None:
        """A text that several examples share, whose results are not independent; None: each is on its own."""
        return None

    def mistake(self, example: Example, result: Outcome) -> Mistake | None:
        """What is wrong with a result; None if nothing is."""
        raise NotImplementedError


AnyTask = Task[Any, Any]


def _with_empty_texts(row: Row, shape: FileShape) -> Row:
    """The row with null as the empty text, which is how some programs write an empty cell as JSON."""
    empty = {
        name: ""
        for name in shape.required
        if name in row.values and all(row.values.get(key) is None for key in (name, *shape.instead.get(name, ())))
    }
    return replace(row, values={**row.values, **empty}) if empty else row
