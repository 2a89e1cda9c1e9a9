"""Checks of a labelled file: every problem with its line, counts, and a copy with what can be repaired repaired."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from spanlab.atomic_io import open_atomically
from spanlab.errors import InputError
from spanlab.tasks.base import AnyTask
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.examples import labelled_rows
from spanlab.tasks.formats.row import Row
from spanlab.tasks.validation import Problem
from spanlab.text import Tokenizer

_MAX_REPAIRS = 5


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One problem and its line."""

    line: int | None
    kind: str
    cause: str
    fix: str | None = None
    serious: bool = True


@dataclass(frozen=True, kw_only=True)
class DataReport:
    """The result of a check."""

    path: str
    task: str
    examples: int
    """Rows that could be parsed, with or without problems."""
    findings: tuple[Finding, ...]
    label_counts: Mapping[str, int] = field(default_factory=dict)
    longest: int = 0
    """Tokens of the longest example; without a tokenizer, its words."""
    over_limit: int | None = None
    """Examples longer than the limit; None without a tokenizer."""

    @property
    def clean(self) -> bool:
        """Whether training accepts every row."""
        return not any(finding.serious for finding in self.findings)

    @property
    def kinds(self) -> dict[str, int]:
        """The number of problems of each kind, most frequent first."""
        return dict(Counter(finding.kind for finding in self.findings).most_common())

    def to_dict(self) -> dict[str, Any]:
        """As `data check --json` prints it."""
        return {
            "path": self.path,
            "task": self.task,
            "examples": self.examples,
            "clean": self.clean,
            "kinds": self.kinds,
            "labels": dict(self.label_counts),
            "longest": self.longest,
            "over_limit": self.over_limit,
            "findings": [vars(finding) for finding in self.findings],
        }


@dataclass(frozen=True, kw_only=True)
class FixOutcome:
    """Counts of the rows of a repaired file."""

    written: int
    repaired: int
    dropped: Mapping[str, int]
    """By the kind of the problem that could not be repaired."""


def check_file(
    task: type[AnyTask],
    path: str,
    data: TaskDataConfig,
    *,
    train: str | None = None,
    tokenizer: Tokenizer | None = None,
    on_row: Callable[[], None] = lambda: None,
) -> DataReport:
    """Everything wrong with a file; with `train`, also overlap with it and labels it does not have."""
    rows: list[Row] = []
    good: list[Row] = []
    findings: list[Finding] = []
    for row in labelled_rows(task, path, data):
        on_row()
        if isinstance(row, InputError):
            findings.append(Finding(line=row.line, kind="unreadable", cause=row.cause, fix=row.fix))
            continue
        problems = list(task.problems(row))
        rows.append(row)
        if not any(problem.serious for problem in problems):
            good.append(row)
        findings += [
            Finding(line=row.line, kind=problem.kind, cause=problem.cause, fix=problem.fix, serious=problem.serious)
            for problem in problems
        ]
        findings += [
            Finding(line=warning.line, kind=warning.kind, cause=warning.cause, fix=warning.reading, serious=False)
            for warning in row.warnings
        ]
    if not good:
        findings = _once_per_file(findings, rows=len(rows))
    findings += _duplicates(task, rows)
    counts = Counter(label for row in good for label in task.gold_labels(task.parse(row, labelled=True)))
    findings += _likely_typos(counts) if train is None else _compare_to_training(task, data, train, good)
    lengths = _lengths(task, good, tokenizer)
    return DataReport(
        path=path,
        task=task.name,
        examples=len(rows),
        findings=tuple(sorted(findings, key=lambda finding: finding.line or 0)),
        label_counts=dict(counts.most_common()),
        longest=max(lengths, default=0),
        over_limit=None if tokenizer is None else sum(length > data.length for length in lengths),
    )


def fix_file(task: type[AnyTask], path: str, data: TaskDataConfig, out: Path) -> FixOutcome:
    """Write every row that is correct or has one obvious repair as JSON lines; the others are dropped and counted.

    Of several rows with one id, the first keeps it. What is written has no serious problem left.
    """
    if out.exists():
        raise InputError("file exists", path=out, fix="choose another name for --fix")
    written = repaired = 0
    dropped: Counter[str] = Counter()
    ids: set[str] = set()
    with open_atomically(out) as file:
        for row in labelled_rows(task, path, data):
            if isinstance(row, InputError):
                dropped["unreadable"] += 1
                continue
            values = _repair(task, row)
            if isinstance(values, Problem):
                dropped[values.kind] += 1
                continue
            name = values.get("id")
            if name is not None and str(name) in ids:
                values = {key: value for key, value in values.items() if key != "id"}
            ids.add(str(name))
            file.write((json.dumps(values, ensure_ascii=False) + "\n").encode())
            written, repaired = written + 1, repaired + (values is not row.values)
    return FixOutcome(written=written, repaired=repaired, dropped=dict(dropped))


def _repair(task: type[AnyTask], row: Row) -> Mapping[str, Any] | Problem:
    """The values of a row after all repairs, or the serious problem that remains.

    One repair can uncover the next: a span without the space at its start may miss a letter at its end.
    """
    values = row.values
    for _ in range(_MAX_REPAIRS):
        problems = list(task.problems(Row(values=values)))
        repaired = next((problem.repaired for problem in problems if problem.repaired is not None), None)
        hopeless = any(problem.serious and problem.repaired is None for problem in problems)
        if hopeless or repaired is None or repaired == values:
            break
        values = repaired
    remaining = [problem for problem in task.problems(Row(values=values)) if problem.serious]
    return min(remaining, key=lambda problem: problem.repaired is not None, default=values)


def _once_per_file(findings: Sequence[Finding], *, rows: int) -> list[Finding]:
    """The findings, a cause that most rows share in a file without a valid row listed once: a column is missing."""
    counts = Counter((finding.kind, finding.cause) for finding in findings)
    shared = {key: count for key, count in counts.items() if count > max(1, rows / 2)}
    kept: list[Finding] = []
    for finding in findings:
        count = shared.get((finding.kind, finding.cause))
        if count is None:
            kept.append(finding)
        elif count > 0:
            kept.append(replace(finding, cause=f"{finding.cause} (in {count} of {rows} examples)"))
            shared[finding.kind, finding.cause] = 0
    return kept


def _duplicates(task: type[AnyTask], rows: Sequence[Row]) -> Iterator[Finding]:
    """Ids that two rows share, and rows with the same input."""
    ids: dict[str, Row] = {}
    inputs: dict[tuple[str, ...], Row] = {}
    for row in rows:
        name = row.values.get("id")
        if name is not None and ids.setdefault(str(name), row) is not row:
            cause = f"line {ids[str(name)].line} has the same id '{name}'"
            yield Finding(
                line=row.line,
                kind="duplicate id",
                cause=cause,
                fix="give each example its own id; --fix removes this one",
            )
        key = tuple(task.shape.input_of(row.values))
        if inputs.setdefault(key, row) is not row:
            cause = f"line {inputs[key].line} has the same input"
            yield Finding(line=row.line, kind="duplicate input", cause=cause, serious=False)


def _compare_to_training(
    task: type[AnyTask], data: TaskDataConfig, train: str, rows: Sequence[Row]
) -> Iterator[Finding]:
    """Labels that the training file does not have, and inputs that it has."""
    known: set[str] = set()
    lines: dict[tuple[str, ...], int | None] = {}
    for row in labelled_rows(task, train, data):
        if isinstance(row, InputError) or any(problem.serious for problem in task.problems(row)):
            continue
        known.update(task.gold_labels(task.parse(row, labelled=True)))
        lines.setdefault(tuple(task.shape.input_of(row.values)), row.line)
    for row in rows:
        for label in sorted(set(task.gold_labels(task.parse(row, labelled=True))) - known):
            near = get_close_matches(label, known, n=1)
            fix = f"did you mean '{near[0]}'?" if near else "add training examples of it"
            yield Finding(line=row.line, kind="unseen label", cause=f"'{label}' is not in {train}", fix=fix)
        key = tuple(task.shape.input_of(row.values))
        if key in lines:
            cause = f"line {lines[key]} of {train} has the same input"
            yield Finding(line=row.line, kind="overlap with train", cause=cause, serious=False)


def _likely_typos(counts: Mapping[str, int]) -> Iterator[Finding]:
    """Rare labels that resemble a frequent one."""
    for label, count in counts.items():
        frequent = [other for other, times in counts.items() if times >= 20 * count and len(other) > 3]
        near = get_close_matches(label, frequent, n=1, cutoff=0.8)
        if near:
            cause = f"the label '{label}' occurs {count} times, and '{near[0]}' {counts[near[0]]}"
            yield Finding(line=None, kind="likely typo", cause=cause, fix="correct it", serious=False)


def _lengths(task: type[AnyTask], rows: Sequence[Row], tokenizer: Tokenizer | None) -> list[int]:
    """Tokens, or words without a tokenizer, of each row's input."""
    lengths = [0] * len(rows)
    inputs = [task.shape.input_of(row.values) for row in rows]
    for texts in map(list, zip(*inputs, strict=True)):
        counts = [len(t) for t in tokenizer.encode_batch(texts)] if tokenizer else [len(t.split()) for t in texts]
        lengths = [length + count for length, count in zip(lengths, counts, strict=True)]
    return lengths
