"""A loaded model: inputs of any number and length enter, typed results leave in the same order.

Inputs are read in portions of bounded size, so that memory does not grow with their number; within a portion they are
sorted by length and computed in batches of a bounded number of tokens.
"""

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spanlab.errors import InputError, UnknownTokensWarning, clip_repr
from spanlab.inference.finite_results import check_outputs, check_results, check_rows
from spanlab.tasks.base import AnyTask
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.examples import Examples, check_known_labels, encode_inputs, read_labelled
from spanlab.tasks.fitted import ALL, FittedTasks, windower_for
from spanlab.tasks.formats.reading import fitting_columns, given_fields
from spanlab.tasks.formats.records import is_one, items_of
from spanlab.tasks.formats.row import Row, joint_shape
from spanlab.tasks.outputs import embedding_samples, embedding_vectors, group_by_example
from spanlab.tasks.result import Result, Scores
from spanlab.tasks.sample import Sample
from spanlab.tasks.unknown_tokens import UnknownTokens
from spanlab.tasks.windows import Windower

Input = str | tuple[str, ...] | Mapping[str, Any]
BATCH_TOKENS = 16384
EMBEDDING = "embedding/"
"""In place of a task's name: the sum of each window's hidden states. No task can have this name."""
Progress = Callable[[float], None]
"""Is told how many more inputs are computed, fractions included."""
_SHOWN_LABELS = 8
PORTION = 2048
PORTION_CHARACTERS = 4_000_000
"""The maximum number of inputs and of characters in a portion."""


@dataclass(frozen=True, kw_only=True)
class PredictedPortion:
    """Rows that were computed together, and a result for each: of one task, or a mapping by task."""

    rows: Sequence[Row]
    results: Sequence[Any]

    def of_task(self, name: str) -> "PredictedPortion":
        """With the results of one task in place of mappings."""
        return PredictedPortion(rows=self.rows, results=[result[name] for result in self.results])


@dataclass(frozen=True, kw_only=True)
class EncodedRows:
    """Rows with their examples and samples by task; `Sample.example` is the index of the row."""

    rows: Sequence[Row]
    examples: Mapping[str, Sequence[Any]]
    samples: Mapping[str, Sequence[Sample]]


class Predictor(ABC):
    """What `spanlab.load` returns. Many threads may use one at once.

    All but the layers works on the host: `TorchPredictor` and `OnnxPredictor` compute these.
    """

    model: FittedTasks

    @abstractmethod
    def compute(
        self,
        samples: Mapping[str, Sequence[Sample]],
        *,
        batch_tokens: int = BATCH_TOKENS,
        on_share: Progress = lambda share: None,
    ) -> dict[str, list[Any]]:
        """The output of each task's head, or of `EMBEDDING`, for each sample, in order."""

    @abstractmethod
    def generates(self, task: str) -> bool:
        """Whether the task runs the encoder once per token, so that its inputs take long however short they are."""

    @property
    @abstractmethod
    def precision(self) -> str:
        """What matrices are multiplied in, such as bf16."""

    @property
    @abstractmethod
    def made_by(self) -> dict[str, str]:
        """The device, the precision and the library that results depend on, down to their last digit."""

    def __repr__(self) -> str:
        """What the model is, and what it can do."""
        folder = self.model.folder
        name = "a model in memory" if folder is None else (folder.parent if folder.name == "model" else folder).name
        width = self.model.shape.width
        lines = [f"Predictor of {name} (hidden size {width}, {self.precision} on {self.made_by['device']})"]
        lines += [f"  predict(…, task={task!r}): {self._describe_task(task)}" for task in self.tasks]
        return "\n".join([*lines, f"  encode(texts): a vector of {width} for each; similarity(texts, others)"])

    def _describe_task(self, name: str) -> str:
        task = self.model.tasks[name]
        labels = task.fitted.entity_labels if task.name == "ner" else task.fitted.labels
        shown = ", ".join(labels[:_SHOWN_LABELS]) + (" …" if len(labels) > _SHOWN_LABELS else "")
        return f"{task.name} of {' and '.join(task.shape.required)}{f'; labels {shown}' if shown else ''}"

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the model's tasks; empty for an encoder without heads."""
        return tuple(self.model.tasks)

    def labels(self, task: str | None = None) -> tuple[str, ...]:
        """The labels of a task."""
        return self.model.tasks[self.model.name_of(task)].fitted.labels

    def predict(
        self,
        inputs: Input | Iterable[Any],
        *,
        task: str | Sequence[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> list[Any]:
        """A result for each input, in order; with several tasks, a mapping of results by task.

        Args:
            inputs: texts, tuples (two texts; a question and its context), or mappings as in a labelled file; a column
                or a table of pandas or polars, a Hugging Face dataset, or documents of spaCy.
            task: which of the model's tasks; None if it has one. With several, texts that tasks share are encoded once,
                and mappings must have the fields of all of them. "all" is every task that takes what the first input
                gives; a question is then asked of its `context`, or of the `text`.
            batch_tokens: the maximum number of tokens in a batch.
        """
        items: Iterable[Input] = items_of([inputs] if is_one(inputs) else inputs)
        if task == ALL:
            items = (with_context(item) if isinstance(item, Mapping) else item for item in items)
            head, items = _peek(items)
            names = self.names_for(head) if head is not None else ()
        else:
            names = self.model.names_of(task)
        task_classes = [type(self.model.tasks[name]) for name in names]
        rows = (to_row(index, item, *task_classes) for index, item in enumerate(items))
        if task is None or (isinstance(task, str) and task != ALL):
            return list(self.predict_rows(rows, task=names[0], batch_tokens=batch_tokens))
        return list(self.predict_together(rows, tasks=names, batch_tokens=batch_tokens))

    def names_for(self, item: Input) -> tuple[str, ...]:
        """The tasks that take an input: what `task="all"` stands for."""
        if isinstance(item, Mapping):
            return self.model.names_for(with_context(item))
        count = 1 if isinstance(item, str) else len(item)
        names = self.model.names_of(ALL)
        fitting = tuple(name for name in names if len(self.model.tasks[name].shape.required) == count)
        if not fitting:
            raise InputError(f"no task of the model takes {count} texts", fix="give a mapping with named fields")
        return fitting

    def names_for_file(self, path: str) -> tuple[str, ...]:
        """The tasks that take the examples of a file, by its first."""
        names = self.model.names_of(ALL)
        shape = joint_shape([self.model.tasks[name].shape for name in names])
        fields = given_fields(path, shape)
        # Of an empty input, or one whose first example is not there yet, nothing is known.
        return self.names_for(dict.fromkeys(fields, "")) if fields else names

    def predict_rows(
        self,
        rows: Iterable[Row | InputError],
        *,
        task: str | None = None,
        batch_tokens: int = BATCH_TOKENS,
        first: int = 0,
    ) -> Iterator[Result]:
        """Results for a stream of rows; rows without an id are numbered from `first`."""
        name = self.model.name_of(task)
        for results in self.predict_together(rows, tasks=[name], batch_tokens=batch_tokens, first=first):
            yield results[name]

    def predict_together(
        self,
        rows: Iterable[Row | InputError],
        *,
        tasks: Sequence[str],
        batch_tokens: int = BATCH_TOKENS,
        first: int = 0,
    ) -> Iterator[dict[str, Result]]:
        """Results by task for a stream of rows; texts that tasks share are encoded once."""
        for portion in self.predict_portions(rows, tasks=tasks, batch_tokens=batch_tokens, first=first):
            yield from portion.results

    def predict_portions(
        self,
        rows: Iterable[Row | InputError],
        *,
        tasks: Sequence[str],
        batch_tokens: int = BATCH_TOKENS,
        first: int = 0,
        progress: Progress = lambda count: None,
        unknown: UnknownTokens | None = None,
    ) -> Iterator["PredictedPortion"]:
        """The same in the portions that are computed together; `progress` hears of every batch.

        Texts that the tokenizer hardly knows are counted in `unknown`; without it, they are a warning at the end.
        """
        tally = UnknownTokens(self.model.tokenizer) if unknown is None else unknown
        names = [self.model.name_of(name) for name in tasks]
        for portion in portions(map(readable_row, rows)):
            encoded = self.encode_rows(portion, tasks=names)
            tally.add_rows(portion, encoded.samples[names[0]])
            outputs = self.compute(
                encoded.samples, batch_tokens=batch_tokens, on_share=_by_share(progress, len(portion))
            )
            results = self.decode(encoded, outputs, first=first)
            by_row = [{name: results[name][index] for name in names} for index in range(len(portion))]
            yield PredictedPortion(rows=portion, results=by_row)
            first += len(portion)
        if unknown is None:
            _warn(tally)

    def predictable_rows(
        self,
        rows: Iterable[Row | InputError],
        *,
        tasks: Sequence[str],
        on_error: Callable[[InputError], None],
    ) -> Iterator[Row]:
        """The rows that can be predicted, each with an id that says where it was; the others' errors go to `on_error`.

        A row without an id gets its index among all rows, so that results are told apart whatever is left out.
        """
        for index, row in enumerate(rows):
            try:
                usable = readable_row(row)
                self.encode_rows([usable], tasks=tasks)
            except InputError as error:
                on_error(error)
            else:
                named = usable.values.get("id") is not None
                yield usable if named else replace(usable, values={**usable.values, "id": str(index)})

    # ---- the three steps of a prediction, for callers that batch the windows of several inputs themselves

    def encode_rows(self, rows: Sequence[Row], *, tasks: Sequence[str]) -> "EncodedRows":
        """The examples and samples of rows for each task; the first row with a problem raises its error."""
        examples = {name: [self.model.tasks[name].read(row, labelled=False) for row in rows] for name in tasks}
        samples = {
            name: encode_inputs(self.model.tasks[name], examples[name], rows, self.model.windower(name))
            for name in tasks
        }
        return EncodedRows(rows=rows, examples=examples, samples=samples)

    def decode(
        self, encoded: "EncodedRows", outputs: Mapping[str, Sequence[Any]], *, first: int = 0
    ) -> dict[str, list[Result]]:
        """The results by task; rows without an id are numbered from `first`."""
        results = {}
        for name, samples in encoded.samples.items():
            check_outputs(encoded.rows, samples, outputs[name])
            grouped = group_by_example(encoded.examples[name], samples, outputs[name])
            results[name] = grouped.decode(self.model.tasks[name], first=first)
        for name in encoded.samples:
            check_results(encoded.rows, results[name])
        return results

    def encode(
        self,
        texts: str | Sequence[str],
        *,
        batch_tokens: int = BATCH_TOKENS,
        data: TaskDataConfig | None = None,
        progress: Progress = lambda count: None,
    ) -> NDArray[np.float32]:
        """(texts, width) unit vectors, whose dot products are cosine similarities; (width,) for a single text."""
        items = [texts] if isinstance(texts, str) else list(texts)
        windower = self.embedding_windower(data)
        unknown = UnknownTokens(self.model.tokenizer)
        rows = (Row(values={"text": text}) for text in items)
        parts = []
        for portion in portions(rows):
            samples = embedding_samples(windower, [row.values["text"] for row in portion])
            unknown.add_rows(portion, samples)
            on_share = _by_share(progress, len(portion))
            sums = self.compute({EMBEDDING: samples}, batch_tokens=batch_tokens, on_share=on_share)[EMBEDDING]
            parts.append(embedding_vectors(samples, sums, count=len(portion), width=self.model.shape.width))
        _warn(unknown)
        vectors = np.concatenate(parts) if parts else np.zeros((0, self.model.shape.width), np.float32)
        check_rows(vectors)
        return vectors[0] if isinstance(texts, str) else vectors

    def similarity(self, texts: str | Sequence[str], others: str | Sequence[str]) -> NDArray[np.float32]:
        """Cosine similarities, (texts, others); without the dimension of what is a single text."""
        similarities: NDArray[np.float32] = self.encode(texts) @ self.encode(others).T
        return similarities

    def embedding_windower(self, data: TaskDataConfig | None = None) -> Windower:
        """How texts are cut to be embedded: by `data`, the settings of the model's only task, or the defaults."""
        tasks = list(self.model.tasks.values())
        window = data or (tasks[0].config.data if len(tasks) == 1 else TaskDataConfig())
        return windower_for(self.model.shape, self.model.tokenizer, window)

    def evaluate(
        self,
        examples: str | PathLike[str] | Iterable[Any],
        *,
        task: str | None = None,
        columns: Sequence[str] = (),
        data: TaskDataConfig | None = None,
        batch_tokens: int = BATCH_TOKENS,
        progress: Progress = lambda count: None,
    ) -> Scores:
        """The task's metrics on labelled examples.

        Args:
            examples: a labelled file; or mappings as in one, a table, a Hugging Face dataset, documents of spaCy.
            task: which of the model's tasks; None if it has one.
            columns: as data.columns, such as `["sentence:text"]`: which column or key is which field.
            data: all settings of reading, in place of `columns`.
            batch_tokens: the maximum number of tokens in a batch.
            progress: is told how many more examples are computed.
        """
        source = os.fspath(examples) if isinstance(examples, str | PathLike) else examples
        data = data or TaskDataConfig(columns=tuple(columns))
        chosen, labelled, results = self.predict_labelled(
            source, task=task, data=data, batch_tokens=batch_tokens, progress=progress
        )
        return replace(chosen.score(labelled.examples, results), remarks=labelled.remarks)

    def predict_labelled(
        self,
        source: str | Iterable[Any],
        *,
        task: str | None = None,
        data: TaskDataConfig | None = None,
        batch_tokens: int = BATCH_TOKENS,
        progress: Progress = lambda count: None,
    ) -> tuple[AnyTask, Examples, list[Result]]:
        """The task, the examples of a labelled file, or of records, with all remarks about them, and their results."""
        name = self.model.name_of(task)
        chosen = self.model.tasks[name]
        data = data or TaskDataConfig()
        remembered = self.columns_for(source, [name]) if isinstance(source, str) and not data.columns else ()
        labelled = read_labelled(type(chosen), source, replace(data, columns=data.columns or remembered))
        check_known_labels(chosen, labelled)
        unknown = UnknownTokens(self.model.tokenizer)
        predicted = self.predict_portions(
            labelled.rows, tasks=[name], batch_tokens=batch_tokens, progress=progress, unknown=unknown
        )
        results = [result[name] for portion in predicted for result in portion.results]
        remarks = (*self.remark_columns(labelled.path, remembered), *labelled.remarks, *unknown.remarks)
        return chosen, replace(labelled, remarks=remarks), results

    def columns_for(self, path: str, tasks: Sequence[str]) -> tuple[str, ...]:
        """The `data.columns` that the tasks were trained with, as far as a file has these columns."""
        shape = joint_shape([self.model.tasks[name].shape for name in tasks])
        trained = dict.fromkeys(column for name in tasks for column in self.model.tasks[name].config.data.columns)
        return fitting_columns(path, shape, tuple(trained))

    def remark_columns(self, path: str, columns: Sequence[str]) -> tuple[str, ...]:
        """A remark that columns of the training file are used for another."""
        return (f"{path}: columns as in training, {','.join(columns)}",) if columns else ()


def _warn(unknown: UnknownTokens) -> None:
    for remark in unknown.remarks:
        warnings.warn(remark, UnknownTokensWarning, stacklevel=3)


def _by_share(progress: Progress, count: int) -> Progress:
    """`progress` for shares of so many inputs."""
    return lambda share: progress(share * count)


def portions(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """The rows in lists of at most `PORTION` rows and `PORTION_CHARACTERS` characters; a longer row is a list alone."""
    portion: list[Row] = []
    characters = 0
    for row in rows:
        size = sum(len(value) for value in row.values.values() if isinstance(value, str))
        if portion and (len(portion) >= PORTION or characters + size > PORTION_CHARACTERS):
            yield portion
            portion, characters = [], 0
        portion.append(row)
        characters += size
    if portion:
        yield portion


def with_context(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """For several tasks at once, a question without a context of its own is asked of the text."""
    asks = "question" in values and "text" in values and "context" not in values
    return {**values, "context": values["text"]} if asks else values


def row_with_context(row: Row | InputError) -> Row | InputError:
    """The same for a row of a file."""
    return row if isinstance(row, InputError) else replace(row, values=with_context(row.values))


def _peek(items: Iterable[Input]) -> tuple[Input | None, Iterable[Input]]:
    """The first item, None if there is none, and all of them."""
    iterator = iter(items)
    head = next(iterator, None)
    return head, () if head is None else chain([head], iterator)


def to_row(index: int, item: Input, *task_classes: type[AnyTask]) -> Row:
    """An input as a row; a text or a tuple is assigned to the required fields of each task, in order."""
    path = f"input {index}"
    if isinstance(item, Mapping):
        shape = joint_shape([task_class.shape for task_class in task_classes])
        return Row(values=shape.with_known_names(item), path=path)
    if not isinstance(item, str | tuple | list):
        raise InputError(f"is {clip_repr(item)}", path=path, fix="give a text, a tuple of texts or a mapping")
    parts = (item,) if isinstance(item, str) else tuple(item)
    values: dict[str, str] = {}
    for task_class in task_classes:
        required = task_class.shape.required
        if len(parts) != len(required):
            fields = " and ".join(required)
            fix = "give mappings with the fields of all tasks" if len(task_classes) > 1 else None
            raise InputError(f"{task_class.name} takes {fields}, and this has {len(parts)} parts", path=path, fix=fix)
        values |= dict(zip(required, parts, strict=True))
    return Row(values=values, path=path)


def readable_row(row: Row | InputError) -> Row:
    """The row; raises the error of a row that could not be read."""
    if isinstance(row, InputError):
        raise row
    return row
