"""Results of a quickstart: what the reader found, what continued pre-training changed, the scores of the new task."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spanlab.atomic_io import write_json
from spanlab.config import Source, from_mapping, to_mapping
from spanlab.inference.load import load
from spanlab.quickstart import plan
from spanlab.quickstart.folder import QuickstartFolder
from spanlab.report.run_history import read_run
from spanlab.strict_parsing import parse_json, read_json

TEST = "test.json"
"""The file of a fine-tuning run with its test scores and sample predictions."""
_SAMPLES = 2


@dataclass(frozen=True, kw_only=True)
class Span:
    """Characters `start` to `end` of a text; a mention of a cluster has no label."""

    start: int
    end: int
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A question and its answer; "" for none."""

    question: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the reader found in a text."""

    text: str
    answers: tuple[Answer, ...]
    entities: tuple[Span, ...]
    clusters: tuple[tuple[Span, ...], ...]


@dataclass(frozen=True, kw_only=True)
class FilledSpan:
    """A sentence of held-out text with a masked span, what stood there, and what was filled in."""

    left: str
    gold: str
    right: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """What continued pre-training changed."""

    steps: int
    epochs: float
    before: dict[str, float]
    """Held-out losses by objective."""
    after: dict[str, float]
    filled: tuple[FilledSpan, ...]
    problem: str = ""
    """Why `after` and `filled` are empty, if they are."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """An unseen text with its gold entities and those that each model predicts."""

    id: str
    text: str
    gold: tuple[Span, ...]
    predicted: dict[str, tuple[Span, ...]]
    """By initial weights."""


@dataclass(frozen=True, kw_only=True)
class RunScores:
    """Scores of one fine-tuned model on the test file."""

    count: int
    f1: float
    samples: tuple[tuple[Span, ...], ...]
    """The predicted entities of each sample."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """The model fine-tuned from one set of initial weights: a row of the table."""

    initial_weights: str
    steps: int
    epochs: float
    dev_f1: float
    """The best, by which the model was chosen."""
    f1: float
    """On the test passages."""

    @property
    def title(self) -> str:
        """The initial weights, for the user."""
        return plan.TITLES[self.initial_weights]


@dataclass(frozen=True, kw_only=True)
class QuickstartResults:
    """The content of `scores.json`."""

    reading: Reading | None
    continuation: Continuation
    rows: tuple[Row, ...]
    left_out: tuple[str, ...]
    """What is missing, and why."""
    tested: int
    """Test passages; 0 without rows."""
    samples: tuple[Sample, ...]
    seconds: float

    def row(self, initial_weights: str) -> Row | None:
        """The row of these initial weights."""
        return next((row for row in self.rows if row.initial_weights == initial_weights), None)

    @property
    def best(self) -> Row | None:
        """The row with the highest score."""
        return max(self.rows, key=lambda row: row.f1, default=None)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return to_mapping(self)


def collect_results(
    folder: QuickstartFolder,
    all_weights: tuple[str, ...],
    reading: Reading | None,
    continuation: Continuation,
    missing: tuple[str, ...],
) -> QuickstartResults:
    """Score the fine-tuned models that learned long enough, unless they have been scored; `missing` is left out."""
    rows, left_out, scores = [], list(missing), {}
    if continuation.problem:
        left_out.append(f"{plan.SPANBERT_NAME} continued: {continuation.problem}")
    for weights in all_weights:
        run = folder.path / plan.run_name(weights)
        dev = [record for record in read_run(run).records if record["split"] == "dev"]
        problem = plan.too_short([(record["step"], record["f1"]) for record in dev])
        if problem:
            left_out.append(f"entities from {plan.TITLES[weights]}: {problem}")
            continue
        scores[weights] = _score(folder, run)
        rows.append(
            Row(
                initial_weights=weights,
                steps=dev[-1]["step"],
                epochs=dev[-1]["epoch"],
                dev_f1=max(record["f1"] for record in dev),
                f1=scores[weights].f1,
            )
        )
    return QuickstartResults(
        reading=reading,
        continuation=continuation,
        rows=tuple(rows),
        left_out=tuple(left_out),
        tested=max((score.count for score in scores.values()), default=0),
        samples=_samples(folder, scores),
        seconds=folder.spent,
    )


def _score(folder: QuickstartFolder, run: Path) -> RunScores:
    """The scores of a run on the test file."""
    path = run / TEST
    if path.is_file():
        return from_mapping(RunScores, read_json(path), Source(path=str(path)))
    with folder.timed(f"test {run.name}"):
        predictor = load(run)
        measured = predictor.evaluate(str(_test_file(folder)))
        results = predictor.predict([row["text"] for row in _sample_rows(folder)])
        samples = tuple(
            tuple(Span(start=span.start, end=span.end, label=span.label) for span in result.spans) for result in results
        )
        scores = RunScores(count=measured.count, f1=measured.metrics["f1"], samples=samples)
        write_json(path, to_mapping(scores))
    folder.events.say(f"{run.name}: F1 {scores.f1:.1f} on the test passages")
    return scores


def _test_file(folder: QuickstartFolder) -> Path:
    return folder.path / plan.ENTITIES / "test.jsonl"


def _sample_rows(folder: QuickstartFolder) -> list[dict[str, Any]]:
    """The first passages of the test file, so that samples are not selected by their results."""
    with _test_file(folder).open(encoding="utf-8") as lines:
        return [parse_json(line) for _, line in zip(range(_SAMPLES), lines, strict=False)]


def _samples(folder: QuickstartFolder, scores: dict[str, RunScores]) -> tuple[Sample, ...]:
    return tuple(
        Sample(
            id=row["id"],
            text=row["text"],
            gold=tuple(Span(**span) for span in row["spans"]),
            predicted={weights: score.samples[index] for weights, score in scores.items()},
        )
        for index, row in enumerate(_sample_rows(folder))
    )
