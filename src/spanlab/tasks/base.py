"""What a task is: the seam between the frame and the task files.

A task file reads top to bottom: Config, read, encode, Head, decode, score. The frame does the rest the same way for
all of them:

    rows of a file ──problems, read──▶ examples ──learn──▶ the task with its labels
    examples ──encode──▶ samples ──(encoder, Head)──▶ outputs ──decode──▶ results ──score──▶ scores

Training draws samples, prediction goes through the same encode, Head and decode; evaluation on dev is prediction.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self, TypeVar

from spanlab.encoder import Encoder
from spanlab.tasks.config import TaskConfig
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.head import Head
from spanlab.tasks.result import Mistake, Result, Scores
from spanlab.tasks.sample import Sample
from spanlab.tasks.validation import Problem
from spanlab.tasks.windows import Windower

Example = TypeVar("Example")
Outcome = TypeVar("Outcome", bound=Result)


@dataclass(frozen=True, kw_only=True)
class FittedState:
    """What a task takes from its training and dev data besides weights; kept in `spanlab.json`."""

    labels: tuple[str, ...] = ()
    """What is predicted, in the order of the head's outputs."""
    entity_labels: tuple[str, ...] = ()
    """A second set, for tasks that predict about typed things or predict two kinds of things."""
    label_counts: tuple[int, ...] = ()
    """How often each label stands in the training data; for class weights and the model card."""
    thresholds: dict[str, float] = field(default_factory=dict)
    """Tuned on dev, and used in evaluation, prediction and serving alike."""


class Task(Protocol[Example, Outcome]):
    """One task with its settings and what it learnt about its data; weights are the head's."""

    name: ClassVar[str]
    Config: ClassVar[type[TaskConfig]]
    shape: ClassVar[FileShape]
    """Which files hold its examples, and under which names."""

    config: Any
    fitted: FittedState

    def __init__(self, config: Any, fitted: FittedState) -> None:  # noqa: ANN401 (an instance of Config)
        """`config` and `fitted` as `fit` made them, or as a model folder kept them."""

    @property
    def primary(self) -> str:
        """The metric by which the best model is kept; more is better."""

    # ---- read
    @classmethod
    def problems(cls, row: Row) -> Iterator[Problem]:
        """Everything that is wrong with a labelled row; none that is serious, and `read` takes it."""

    @classmethod
    def read(cls, row: Row, *, labelled: bool) -> Example:
        """A row as an example; without `labelled` its labels may be missing and are not looked at."""

    @classmethod
    def fit(cls, config: Any, examples: Sequence[Example]) -> Self:  # noqa: ANN401
        """The task with the labels of the training examples, and with the settings that those decide."""

    @classmethod
    def gold_labels(cls, example: Example) -> Iterable[str]:
        """The labels of a labelled example: those a model must know to learn from it or to be scored on it."""

    # ---- encode
    def encode(self, examples: Sequence[Example], windower: Windower, *, labelled: bool) -> list[Sample]:
        """The samples of the examples, in order; those of one example are neighbours. With targets if `labelled`."""

    # ---- Head
    def head(self, encoder: Encoder) -> Head:
        """New layers for this task on this encoder."""

    # ---- decode
    def decode(self, number: int, example: Example, samples: Sequence[Sample], outputs: Sequence[Any]) -> Outcome:
        """The result of example `number` from the outputs of its samples, windows merged."""

    def tune(
        self, examples: Sequence[Example], samples: Sequence[Sequence[Sample]], outputs: Sequence[Sequence[Any]]
    ) -> Self:
        """The task with thresholds tuned on dev; itself, for tasks without."""

    # ---- score
    def read_result(self, row: Row, number: int, example: Example) -> Outcome:
        """A prediction from a file, of this or any other system, for `example`."""

    def score(self, examples: Sequence[Example], results: Sequence[Outcome]) -> Scores:
        """The task's metrics."""

    def mistake(self, example: Example, result: Outcome) -> Mistake | None:
        """What is wrong with a result; None where nothing is."""


AnyTask = Task[Any, Any]
