"""Files to examples and examples to samples: rows are read, validated, parsed and encoded; errors name the row."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spanlab.errors import InputError, did_you_mean
from spanlab.tasks.base import AnyTask
from spanlab.tasks.config import TaskConfig, TaskDataConfig
from spanlab.tasks.formats.reading import read_rows
from spanlab.tasks.formats.records import EXAMPLES, read_records
from spanlab.tasks.formats.row import Row
from spanlab.tasks.sample import Sample
from spanlab.tasks.validation import DROPPABLE, MISSING_FIELD
from spanlab.tasks.windows import Windower


@dataclass(frozen=True, kw_only=True)
class Examples:
    """The valid examples of a file, each with its row."""

    path: str
    examples: tuple[Any, ...]
    rows: tuple[Row, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)
    """The number of rows dropped on request, by the kind of their problem."""
    remarks: tuple[str, ...] = ()
    """What is odd about lines that are read all the same, in a line for the user each."""

    def __len__(self) -> int:
        return len(self.examples)


def read_labelled(task: type[AnyTask], source: str | Iterable[Any], data: TaskDataConfig) -> Examples:
    """The labelled examples of a file, or of records. The first problem stops, unless `data.bad_rows` is `drop`."""
    path = source if isinstance(source, str) else EXAMPLES
    examples: list[Any] = []
    rows: list[Row] = []
    dropped: Counter[str] = Counter()
    for row in labelled_rows(task, source, data):
        if isinstance(row, InputError):
            if data.bad_rows == "refuse":
                raise row
            dropped["unreadable"] += 1
            continue
        problem = next((problem for problem in task.problems(row) if problem.serious), None)
        if problem is None:
            examples.append(task.parse(row, labelled=True))
            rows.append(row)
        elif data.bad_rows == "drop":
            dropped[problem.kind] += 1
        else:
            error = problem.error(row)
            # Without its column every row of a table has the problem.
            drop = None if problem.kind == MISSING_FIELD and row.columns else DROPPABLE
            fix = "; ".join(part for part in (problem.fix, drop) if part)
            raise InputError(error.cause, path=row.path, line=row.line, fix=fix)
    if not examples:
        raise InputError(
            f"all {dropped.total()} examples have problems", path=path, fix="list them with spanlab data check"
        )
    remarks = describe_warnings(rows)
    return Examples(path=path, examples=tuple(examples), rows=tuple(rows), dropped=dict(dropped), remarks=remarks)


def labelled_rows(task: type[AnyTask], source: str | Iterable[Any], data: TaskDataConfig) -> Iterator[Row | InputError]:
    """The rows of a labelled file, or of records; raises an error for a format that holds no labels."""
    if not isinstance(source, str):
        return read_records(source, task.shape, data.columns)
    return read_rows(source, task.shape, data.columns, data.tag_scheme, labelled=True)


def describe_warnings(rows: Iterable[Row]) -> tuple[str, ...]:
    """A line for each kind of warning: the first, and how many lines have one."""
    counts: Counter[str] = Counter()
    lines: dict[str, str] = {}
    for row in rows:
        for warning in row.warnings:
            counts[warning.kind] += 1
            lines.setdefault(warning.kind, f"{row.path}:{warning.line}: {warning.cause}; {warning.reading}")
    return tuple(line if counts[kind] == 1 else f"{line} ({counts[kind]} such lines)" for kind, line in lines.items())


def read_unlabelled(task: type[AnyTask], path: str, columns: Sequence[str] = ()) -> Examples:
    """The examples of a file; labels, if there are any, are ignored."""
    rows: list[Row] = []
    for row in read_rows(path, task.shape, columns):
        if isinstance(row, InputError):
            raise row
        rows.append(row)
    examples = tuple(task.read(row, labelled=False) for row in rows)
    return Examples(path=path, examples=examples, rows=tuple(rows))


def fit_task(task: type[AnyTask], config: TaskConfig, data: Examples) -> AnyTask:
    """The task fitted on the training examples; an error about all of them names their file."""
    try:
        return task.fit(config, data.examples)
    except InputError as error:
        if error.path is not None:
            raise
        raise InputError(error.cause, path=data.path, fix=error.fix) from None


def encode_examples(
    task: AnyTask, examples: Sequence[Any], rows: Sequence[Row], windower: Windower, *, labelled: bool
) -> list[Sample]:
    """The task's samples of the examples; an error about one example names its row."""
    try:
        return task.encode(examples, windower, labelled=labelled)
    except InputError as error:
        if error.path is not None:
            raise
        for example, row in zip(examples, rows, strict=True):
            try:
                task.encode([example], windower, labelled=labelled)
            except InputError as cause:
                raise row.error(cause.cause, cause.fix) from None
        raise


def encode_inputs(task: AnyTask, examples: Sequence[Any], rows: Sequence[Row], windower: Windower) -> list[Sample]:
    """The task's samples of unlabelled examples; those without text have none."""
    kept = [index for index, example in enumerate(examples) if not task.is_empty(example)]
    if len(kept) == len(examples):
        return encode_examples(task, examples, rows, windower, labelled=False)
    samples = encode_examples(
        task, [examples[index] for index in kept], [rows[index] for index in kept], windower, labelled=False
    )
    return [replace(sample, example=kept[sample.example]) for sample in samples]


def check_known_labels(task: AnyTask, data: Examples) -> None:
    """Raise an error for a label that training has not seen, with the nearest known one."""
    known = {*task.fitted.labels, *task.fitted.entity_labels}
    for example, row in zip(data.examples, data.rows, strict=True):
        for label in task.gold_labels(example):
            if label not in known:
                fix = f"correct it, or add training examples of it; known are {_list_names(sorted(known))}"
                raise row.error(f"unknown label '{label}'{did_you_mean(label, known)}", fix)


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(names[:10]) + more
