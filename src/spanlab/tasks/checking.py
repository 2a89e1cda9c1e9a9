"""Checking labelled data: every problem with its line, counts, and a file with what can be mended mended."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from spanlab.errors import InputError
from spanlab.tasks.base import AnyTask
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.formats.reading import read_rows
from spanlab.tasks.formats.row import Row
from spanlab.tasks.validation import Problem
from spanlab.text import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One problem and where it is."""

    line: int | None
    kind: str
    cause: str
    fix: str | None = None
    serious: bool = True


@dataclass(frozen=True, kw_only=True)
class DataReport:
    """What a check found."""

    path: str
    task: str
    examples: int
    """Rows that could be read, with or without problems."""
    findings: tuple[Finding, ...]
    label_counts: Mapping[str, int] = field(default_factory=dict)
    longest: int = 0
    """Tokens of the longest example, or its words where no tokenizer was given."""
    over_limit: int | None = None
    """Examples longer than the limit; None without a tokenizer."""

    @property
    def clean(self) -> bool:
        """Whether training would take every row."""
        return not any(finding.serious for finding in self.findings)

    @property
    def kinds(self) -> dict[str, int]:
        """How many problems of each kind."""
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
    """What mending a file came to."""

    written: int
    mended: int
    dropped: Mapping[str, int]
    """By the kind of the problem that could not be mended."""


def check_file(
    task: type[AnyTask],
    path: str,
    data: TaskDataConfig,
    *,
    train: str | None = None,
    tokenizer: Tokenizer | None = None,
) -> DataReport:
    """Everything that is wrong with a file; with `train`, also what is wrong between the two."""
    rows, findings = _read(task, path, data)
    findings += _doubles(task, rows)
    good = [row for row in rows if not any(problem.serious for problem in task.problems(row))]
    counts = Counter(_labels(task, data, good))
    if train is not None:
        findings += _against(task, data, train, good)
    else:
        findings += _likely_typos(counts)
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
    """Write every row that is right or can be mended without guessing as JSON lines; tell what was dropped."""
    if out.exists():
        raise InputError("is there already", path=out, fix="choose another --fix")
    written = mended = 0
    dropped: Counter[str] = Counter()
    with out.open("w", encoding="utf-8", newline="\n") as file:
        for row in read_rows(path, task.shape, data.columns):
            if isinstance(row, InputError):
                dropped["unreadable"] += 1
                continue
            serious = [problem for problem in task.problems(row) if problem.serious]
            lost = next((problem for problem in serious if problem.repaired is None), None)
            if lost is not None:
                dropped[lost.kind] += 1
                continue
            values = serious[-1].repaired if serious else row.values
            file.write(json.dumps(values, ensure_ascii=False) + "\n")
            written, mended = written + 1, mended + bool(serious)
    return FixOutcome(written=written, mended=mended, dropped=dict(dropped))


def _read(task: type[AnyTask], path: str, data: TaskDataConfig) -> tuple[list[Row], list[Finding]]:
    rows: list[Row] = []
    findings: list[Finding] = []
    for row in read_rows(path, task.shape, data.columns):
        if isinstance(row, InputError):
            findings.append(Finding(line=row.line, kind="unreadable", cause=row.cause, fix=row.fix))
        else:
            rows.append(row)
            findings += [_finding(row, problem) for problem in task.problems(row)]
    return rows, findings


def _finding(row: Row, problem: Problem) -> Finding:
    return Finding(line=row.line, kind=problem.kind, cause=problem.cause, fix=problem.fix, serious=problem.serious)


def _doubles(task: type[AnyTask], rows: Sequence[Row]) -> Iterator[Finding]:
    """Ids that two rows have, and rows with the same input."""
    ids: dict[str, Row] = {}
    inputs: dict[tuple[str, ...], Row] = {}
    for row in rows:
        name = row.values.get("id")
        if name is not None and ids.setdefault(str(name), row) is not row:
            cause = f"the id '{name}' is also that of line {ids[str(name)].line}"
            yield Finding(line=row.line, kind="duplicate id", cause=cause, fix="give each example its own")
        key = _input(task, row)
        if inputs.setdefault(key, row) is not row:
            cause = f"the same input as line {inputs[key].line}"
            yield Finding(line=row.line, kind="duplicate input", cause=cause, serious=False)


def _input(task: type[AnyTask], row: Row) -> tuple[str, ...]:
    return tuple(task.shape.input_of(row.values))


def _labels(task: type[AnyTask], data: TaskDataConfig, rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        yield from _labels_of(task, row)


def _labels_of(task: type[AnyTask], row: Row) -> Iterable[str]:
    return task.gold_labels(task.parse(row, labelled=True))


def _against(task: type[AnyTask], data: TaskDataConfig, train: str, rows: Sequence[Row]) -> Iterator[Finding]:
    """Labels that training has not seen, and inputs that it has."""
    known: set[str] = set()
    seen: dict[tuple[str, ...], int | None] = {}
    for row in read_rows(train, task.shape, data.columns):
        if isinstance(row, InputError) or any(problem.serious for problem in task.problems(row)):
            continue
        known.update(_labels_of(task, row))
        seen.setdefault(_input(task, row), row.line)
    for row in rows:
        for label in sorted(set(_labels_of(task, row)) - known):
            near = get_close_matches(label, known, n=1)
            fix = f"did you mean '{near[0]}'?" if near else "add training examples of it"
            yield Finding(line=row.line, kind="unseen label", cause=f"'{label}' is not in {train}", fix=fix)
        if _input(task, row) in seen:
            cause = f"the same input as line {seen[_input(task, row)]} of {train}"
            yield Finding(line=row.line, kind="overlap with train", cause=cause, serious=False)


def _likely_typos(counts: Mapping[str, int]) -> Iterator[Finding]:
    """Rare labels that look like a frequent one."""
    for label, count in counts.items():
        frequent = [other for other, times in counts.items() if times >= 20 * count and len(other) > 3]
        near = get_close_matches(label, frequent, n=1, cutoff=0.8)
        if near:
            cause = f"the label '{label}' occurs {count} times, and '{near[0]}' {counts[near[0]]}"
            yield Finding(line=None, kind="likely typo", cause=cause, fix="correct it", serious=False)


def _lengths(task: type[AnyTask], rows: Sequence[Row], tokenizer: Tokenizer | None) -> list[int]:
    lengths = [0] * len(rows)
    inputs = [task.shape.input_of(row.values) for row in rows]
    for texts in map(list, zip(*inputs, strict=True)):
        counted = [len(t) for t in tokenizer.encode_batch(texts)] if tokenizer else [len(t.split()) for t in texts]
        lengths = [before + count for before, count in zip(lengths, counted, strict=True)]
    return lengths
