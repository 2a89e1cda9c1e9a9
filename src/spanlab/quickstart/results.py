"""Results of a quickstart: the test scores of every model, and their predictions for the same unseen texts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spanlab.atomic_io import write_json
from spanlab.config import Source, from_mapping, to_mapping
from spanlab.inference.load import load
from spanlab.quickstart import plan
from spanlab.quickstart.folder import QuickstartFolder
from spanlab.quickstart.plan import QuickstartTask
from spanlab.quickstart.runs import steps_of
from spanlab.report.run_history import read_run
from spanlab.strict_parsing import parse_json, read_json
from spanlab.tasks.ner.data import NerResult
from spanlab.tasks.qa.data import QaResult

TEST = "test.json"
"""The file of a fine-tuning run with its test scores and sample predictions."""
_SAMPLE_PASSAGES = 2
_SAMPLE_QUESTIONS = 6


@dataclass(frozen=True, kw_only=True)
class SampleSpan:
    """Characters `start` to `end` of a sample's text and their label; an answer has no label."""

    start: int
    end: int
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """An unseen text with its gold spans and those that each model predicts."""

    id: str
    text: str
    question: str = ""
    gold: tuple[SampleSpan, ...]
    predicted: dict[str, tuple[SampleSpan, ...]]
    """By initial weights."""

    def answer(self, spans: tuple[SampleSpan, ...]) -> str:
        """The text of the first span; "" without spans."""
        return self.text[spans[0].start : spans[0].end] if spans else ""


@dataclass(frozen=True, kw_only=True)
class RunScores:
    """Scores of one fine-tuned model on the test file."""

    count: int
    metrics: dict[str, float]
    samples: tuple[tuple[SampleSpan, ...], ...]
    """The predicted spans of each sample."""


@dataclass(frozen=True, kw_only=True)
class ModelScores:
    """The models fine-tuned from one set of initial weights: a row of the table."""

    initial_weights: str
    title: str
    pretraining: str
    """The pre-training of the weights, in words."""
    scores: dict[str, dict[str, float]]
    """Metrics by task."""
    steps: dict[str, int]
    """Steps of fine-tuning, by task."""


@dataclass(frozen=True, kw_only=True)
class QuickstartResults:
    """The content of `scores.json`."""

    rows: tuple[ModelScores, ...]
    left_out: str
    """Why MiniLM is missing, if it is."""
    tested: dict[str, int]
    """Test examples, by task."""
    entities: tuple[Sample, ...]
    questions: tuple[Sample, ...]
    seconds: float

    def row(self, initial_weights: str) -> ModelScores | None:
        """The row of these initial weights."""
        return next((row for row in self.rows if row.initial_weights == initial_weights), None)

    def best(self, task: QuickstartTask) -> ModelScores:
        """The row with the highest score."""
        return max(self.rows, key=lambda row: row.scores[task.name][task.metrics[0]])

    def to_dict(self) -> dict[str, Any]:
        """For JSON, with the keys of the file format."""
        mapping = to_mapping(self)
        for row in mapping["rows"]:
            row["beginning"], row["learnt"] = row.pop("initial_weights"), row.pop("pretraining")
        for sample in (*mapping["entities"], *mapping["questions"]):
            sample["found"] = sample.pop("predicted")
        return mapping


def score_models(folder: QuickstartFolder, all_weights: tuple[str, ...]) -> None:
    """Score every fine-tuned model on the test file of its task, unless it has been scored."""
    for weights in all_weights:
        for task in plan.TASKS:
            run = folder.path / plan.run_name(weights, task)
            if (run / TEST).is_file():
                continue
            with folder.timed(f"test {run.name}"):
                scores = _score(run, folder.path / task.name / "test.jsonl", task)
                write_json(run / TEST, to_mapping(scores))
            formatted = (f"{name.replace('_', ' ')} {scores.metrics[name]:.1f}" for name in task.metrics)
            folder.events.say(f"{run.name}: {', '.join(formatted)}")


def _score(run: Path, file: Path, task: QuickstartTask) -> RunScores:
    predictor = load(run)
    scores = predictor.evaluate(str(file))
    results = predictor.predict(_sample_rows(file, task))
    return RunScores(count=scores.count, metrics=dict(scores.metrics), samples=tuple(map(_spans, results)))


def _spans(result: NerResult | QaResult) -> tuple[SampleSpan, ...]:
    if isinstance(result, NerResult):
        return tuple(SampleSpan(start=span.start, end=span.end, label=span.label) for span in result.spans)
    if result.start is None or result.end is None:
        return ()
    return (SampleSpan(start=result.start, end=result.end),)


def _sample_rows(file: Path, task: QuickstartTask) -> list[dict[str, Any]]:
    """The first examples of the test file, so that samples are not selected by their results."""
    count = _SAMPLE_QUESTIONS if task.task == "qa" else _SAMPLE_PASSAGES
    with file.open(encoding="utf-8") as lines:
        return [parse_json(line) for _, line in zip(range(count), lines, strict=False)]


def collect_results(folder: QuickstartFolder, all_weights: tuple[str, ...], left_out: str) -> QuickstartResults:
    """The results of all models, which must have been scored."""
    scores = {
        (weights, task.name): _read(folder.path / plan.run_name(weights, task) / TEST)
        for weights in all_weights
        for task in plan.TASKS
    }
    entities, questions = (_samples(folder, task, all_weights, scores) for task in plan.TASKS)
    return QuickstartResults(
        rows=tuple(_row(folder, weights, scores) for weights in all_weights),
        left_out=left_out,
        tested={task.name: scores[all_weights[0], task.name].count for task in plan.TASKS},
        entities=entities,
        questions=questions,
        seconds=folder.spent,
    )


def _row(folder: QuickstartFolder, weights: str, scores: dict[tuple[str, str], RunScores]) -> ModelScores:
    return ModelScores(
        initial_weights=weights,
        title=plan.TITLES[weights],
        pretraining=_describe_pretraining(folder, weights),
        scores={task.name: scores[weights, task.name].metrics for task in plan.TASKS},
        steps={task.name: steps_of(folder.path / plan.run_name(weights, task)) for task in plan.TASKS},
    )


def _describe_pretraining(folder: QuickstartFolder, weights: str) -> str:
    if weights == plan.UNTRAINED:
        return "none"
    last = read_run(folder.path / weights).records[-1]
    steps = f"{last['step']:,} steps, {last['epoch']:.1f} epochs"
    return steps if weights == plan.PRETRAINED else f"as published, {steps}"


def _samples(
    folder: QuickstartFolder,
    task: QuickstartTask,
    all_weights: tuple[str, ...],
    scores: dict[tuple[str, str], RunScores],
) -> tuple[Sample, ...]:
    rows = _sample_rows(folder.path / task.name / "test.jsonl", task)
    return tuple(
        Sample(
            id=row["id"],
            text=row.get("text") or row["context"],
            question=row.get("question", ""),
            gold=_gold(row),
            predicted={weights: scores[weights, task.name].samples[index] for weights in all_weights},
        )
        for index, row in enumerate(rows)
    )


def _gold(row: dict[str, Any]) -> tuple[SampleSpan, ...]:
    if "spans" in row:
        return tuple(SampleSpan(**span) for span in row["spans"])
    ends = ((answer["start"], answer["start"] + len(answer["text"])) for answer in row["answers"])
    return tuple(SampleSpan(start=start, end=end) for start, end in ends)


def _read(path: Path) -> RunScores:
    return from_mapping(RunScores, read_json(path), Source(path=str(path)))
