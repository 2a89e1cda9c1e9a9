"""What came of a quickstart: test scores of every beginning, and what each made of the same unseen texts."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spanlab.atomic_io import write_json
from spanlab.config import Source, from_mapping, to_mapping
from spanlab.inference.load import load
from spanlab.quickstart import plan
from spanlab.quickstart.folder import QuickstartFolder
from spanlab.quickstart.plan import QuickstartTask
from spanlab.quickstart.training_steps import steps_of
from spanlab.report.run_history import read_run
from spanlab.tasks.ner.data import NerResult
from spanlab.tasks.qa.data import QaResult

TEST = "test.json"
"""Of every fine-tuning run's folder: its test scores and sample predictions."""
_SAMPLE_PASSAGES = 2
_SAMPLE_QUESTIONS = 6


@dataclass(frozen=True, kw_only=True)
class SampleSpan:
    """Characters `start` to `end` of a sample's text, and what they are; an answer has no label."""

    start: int
    end: int
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A text that no model had seen, and what is in it by the almanac and by each beginning."""

    id: str
    text: str
    question: str = ""
    gold: tuple[SampleSpan, ...]
    found: dict[str, tuple[SampleSpan, ...]]
    """By beginning."""

    def answer(self, spans: tuple[SampleSpan, ...]) -> str:
        """The words of the first of some spans of the text; "" where there is none."""
        return self.text[spans[0].start : spans[0].end] if spans else ""


@dataclass(frozen=True, kw_only=True)
class RunScores:
    """One fine-tuned model on the test file."""

    count: int
    metrics: dict[str, float]
    samples: tuple[tuple[SampleSpan, ...], ...]
    """What it finds in each of the samples."""


@dataclass(frozen=True, kw_only=True)
class BeginningScores:
    """A row of the table."""

    beginning: str
    title: str
    fitted: str
    """From what, before it was fine-tuned."""
    scores: dict[str, dict[str, float]]
    """Metrics by task."""
    steps: dict[str, int]
    """Of fine-tuning, by task."""


@dataclass(frozen=True, kw_only=True)
class QuickstartResults:
    """All of it, as `scores.json` holds it."""

    rows: tuple[BeginningScores, ...]
    left_out: str
    """Why there is no MiniLM, if there is none."""
    tested: dict[str, int]
    """Examples by task."""
    entities: tuple[Sample, ...]
    questions: tuple[Sample, ...]
    seconds: float

    def row(self, beginning: str) -> BeginningScores | None:
        """The row of a beginning."""
        return next((row for row in self.rows if row.beginning == beginning), None)

    def best(self, task: QuickstartTask) -> BeginningScores:
        """The row with the highest score."""
        return max(self.rows, key=lambda row: row.scores[task.name][task.metrics[0]])

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return to_mapping(self)


def score_models(place: QuickstartFolder, beginnings: tuple[str, ...]) -> None:
    """Score every fine-tuned model on the test file of its task; what is scored already is left alone."""
    for beginning in beginnings:
        for task in plan.TASKS:
            run = place.folder / plan.run_name(beginning, task)
            if (run / TEST).is_file():
                continue
            with place.timed(f"test {run.name}"):
                result = _test(run, place.folder / task.name / "test.jsonl", task)
                write_json(run / TEST, to_mapping(result))
            place.watcher.say(f"{run.name}: {_told(task, result.metrics)}")


def _told(task: QuickstartTask, metrics: dict[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {metrics[name]:.1f}" for name in task.metrics)


def _test(run: Path, file: Path, task: QuickstartTask) -> RunScores:
    predictor = load(run)
    scores = predictor.evaluate(str(file))
    found = predictor.predict(_sample_rows(file, task))
    return RunScores(count=scores.count, metrics=dict(scores.metrics), samples=tuple(map(_spans, found)))


def _spans(result: NerResult | QaResult) -> tuple[SampleSpan, ...]:
    if isinstance(result, NerResult):
        return tuple(SampleSpan(start=span.start, end=span.end, label=span.label) for span in result.spans)
    if result.start is None or result.end is None:
        return ()
    return (SampleSpan(start=result.start, end=result.end),)


def _sample_rows(file: Path, task: QuickstartTask) -> list[dict[str, Any]]:
    """The first examples of the test file, whatever becomes of them."""
    count = _SAMPLE_QUESTIONS if task.task == "qa" else _SAMPLE_PASSAGES
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for _, line in zip(range(count), lines, strict=False)]


def gather(place: QuickstartFolder, beginnings: tuple[str, ...], left_out: str) -> QuickstartResults:
    """The findings of models that were all tested."""
    tests = {
        (beginning, task.name): _read(place.folder / plan.run_name(beginning, task) / TEST)
        for beginning in beginnings
        for task in plan.TASKS
    }
    entities, questions = (_samples(place, task, beginnings, tests) for task in plan.TASKS)
    return QuickstartResults(
        rows=tuple(_row(place, beginning, tests) for beginning in beginnings),
        left_out=left_out,
        tested={task.name: tests[beginnings[0], task.name].count for task in plan.TASKS},
        entities=entities,
        questions=questions,
        seconds=place.spent,
    )


def _row(place: QuickstartFolder, beginning: str, tests: dict[tuple[str, str], RunScores]) -> BeginningScores:
    return BeginningScores(
        beginning=beginning,
        title=plan.TITLES[beginning],
        fitted=_learnt(place, beginning),
        scores={task.name: tests[beginning, task.name].metrics for task in plan.TASKS},
        steps={task.name: steps_of(place.folder / plan.run_name(beginning, task)) for task in plan.TASKS},
    )


def _learnt(place: QuickstartFolder, beginning: str) -> str:
    if beginning == plan.UNTRAINED:
        return "nothing"
    records = read_run(place.folder / beginning).records
    here = f"{records[-1]['step']:,} steps, {records[-1]['epoch']:.1f} epochs"
    return here if beginning == plan.PRETRAINED else f"as published, {here}"


def _samples(
    place: QuickstartFolder, task: QuickstartTask, beginnings: tuple[str, ...], tests: dict[tuple[str, str], RunScores]
) -> tuple[Sample, ...]:
    rows = _sample_rows(place.folder / task.name / "test.jsonl", task)
    return tuple(
        Sample(
            id=row["id"],
            text=row.get("text") or row["context"],
            question=row.get("question", ""),
            gold=_gold(row),
            found={beginning: tests[beginning, task.name].samples[number] for beginning in beginnings},
        )
        for number, row in enumerate(rows)
    )


def _gold(row: dict[str, Any]) -> tuple[SampleSpan, ...]:
    if "spans" in row:
        return tuple(SampleSpan(**span) for span in row["spans"])
    ends = ((answer["start"], answer["start"] + len(answer["text"])) for answer in row["answers"])
    return tuple(SampleSpan(start=start, end=end) for start, end in ends)


def _read(path: Path) -> RunScores:
    return from_mapping(RunScores, json.loads(path.read_text(encoding="utf-8")), Source(path=str(path)))
