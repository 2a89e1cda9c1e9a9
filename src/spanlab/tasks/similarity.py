"""Similarity: how similar two texts are (a score), or which relation they have (a label).

`head=cross` encodes both texts in one sequence and is the more exact; `head=bi` encodes each alone, and the cosine of
the two vectors is the score: vectors can be computed once, kept and searched. Where texts are too long for one
sequence, a cross-encoder takes every window over one with every window over the other and averages the logits; a
bi-encoder's vector is the mean over all windows.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from spanlab.config import AtLeast, Below
from spanlab.errors import ConfigError, InputError, clip_repr
from spanlab.metrics.classification import class_table, confusion_matrix, score_classes
from spanlab.metrics.score_counts import ScoreCounts
from spanlab.metrics.similarity import score_similarity
from spanlab.tasks.base import FittedState, Task
from spanlab.tasks.classification import bars, paragraph
from spanlab.tasks.config import TaskConfig
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.probabilities import softmax
from spanlab.tasks.result import Mistake, Result, Scores, common_fields, empty_fields, result_id
from spanlab.tasks.sample import Sample
from spanlab.tasks.validation import Problem, label_problems, read_id, text_problems
from spanlab.tasks.windows import Windower

if TYPE_CHECKING:
    from spanlab.encoder import Encoder
    from spanlab.tasks.head import Head

# ---- Config


@dataclass(frozen=True, kw_only=True)
class SimilarityConfig(TaskConfig):
    """Settings of similarity."""

    head: Literal["cross", "bi"] = "cross"
    """Both texts in one sequence, or each in its own and the cosine of their vectors."""
    score_range: tuple[float, float] = (0.0, 5.0)
    """The lowest and the highest score in the data; STS has 0 to 5."""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: labels are weighted in inverse proportion to their frequency."""
    label_smoothing: Annotated[float, AtLeast(0), Below(1)] = 0.0
    """The share of each target's probability that is spread over all labels."""

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = self.score_range
        if not low < high:
            raise ConfigError(f"'score_range' is {low} to {high}; the first must be less than the second")


# ---- read


@dataclass(frozen=True, kw_only=True)
class SimilarityExample:
    """Two texts, and the score or the label where one is known."""

    id: str | None
    text_a: str
    text_b: str
    score: float | None = None
    label: str | None = None


def _score_problems(row: Row) -> Iterator[Problem]:
    try:
        number = float(row.values["score"])
    except (TypeError, ValueError):
        cause = f"'score' is {clip_repr(row.values['score'])}; it must be a number"
        yield Problem(kind="wrong type", cause=cause)
    else:
        if not np.isfinite(number):
            yield Problem(kind="wrong type", cause=f"'score' is {number}; it must be finite")


# ---- decode


@dataclass(frozen=True, kw_only=True)
class SimilarityResult(Result):
    """The similarity of two texts, in the range of the training data."""

    score: float | None
    """None if a text is empty."""
    sources: tuple[str, ...] = field(default=(), metadata={"json": False})
    """The two texts."""

    def to_html(self) -> str:
        """Both texts and the number."""
        score = "" if self.score is None else f"{self.score:.3f}"
        return f"<div class='similarity'>{''.join(map(paragraph, self.sources))}<b>{score}</b></div>"


@dataclass(frozen=True, kw_only=True)
class PairLabelResult(Result):
    """The relation of two texts, and the probability of every label."""

    label: str | None
    """None if a text is empty."""
    scores: Mapping[str, float] = field(default_factory=dict)
    sources: tuple[str, ...] = field(default=(), metadata={"json": False})
    """The two texts."""

    def to_html(self) -> str:
        """Both texts, the label, and a bar for every score."""
        label = f"<b>{escape(self.label or '')}</b>"
        return f"<div class='similarity'>{''.join(map(paragraph, self.sources))}{label}{bars(self.scores)}</div>"


# ---- the task


class Similarity(Task[SimilarityExample, SimilarityResult | PairLabelResult]):
    """Pairs of texts to scores or labels."""

    name: ClassVar[str] = "similarity"
    Config: ClassVar[type[TaskConfig]] = SimilarityConfig
    shape: ClassVar[FileShape] = FileShape(
        fields={
            "id": ("guid", "idx", "index"),
            "text_a": ("sentence1", "#1 String", "question1", "premise", "text1", "sentence_a"),
            "text_b": ("sentence2", "#2 String", "question2", "hypothesis", "text2", "sentence_b"),
            "score": ("similarity",),
            "label": ("Quality", "is_duplicate", "gold_label"),
        },
        required=("text_a", "text_b"),
    )

    config: SimilarityConfig

    def __init__(self, config: SimilarityConfig, fitted: FittedState) -> None:
        self.config, self.fitted = config, fitted
        self._label_index = {label: index for index, label in enumerate(fitted.labels)}

    @property
    @override
    def primary(self) -> str:
        """Accuracy of labels, or rank correlation of scores."""
        return "accuracy" if self.fitted.labels else "spearman"

    @classmethod
    @override
    def problems(cls, row: Row, *, labelled: bool = True) -> Iterator[Problem]:
        """Two texts and a score or a label."""
        yield from text_problems(row, "text_a")
        yield from text_problems(row, "text_b")
        if not labelled:
            return
        if row.values.get("score") is not None:
            yield from _score_problems(row)
        elif "label" in row.values:
            yield from label_problems(row, "label")
        else:
            cause = "there is neither 'score' nor 'label'"
            yield Problem(kind="missing field", cause=cause, fix='write "score": 4.2 or "label": "…"')

    @classmethod
    @override
    def parse(cls, row: Row, *, labelled: bool) -> SimilarityExample:
        score = row.values.get("score") if labelled else None
        label = row.values.get("label") if labelled and score is None else None
        return SimilarityExample(
            id=read_id(row),
            text_a=row.values["text_a"],
            text_b=row.values["text_b"],
            score=None if score is None else float(score),
            label=None if label is None else str(label).strip(),
        )

    @classmethod
    @override
    def fit(cls, config: SimilarityConfig, examples: Sequence[SimilarityExample]) -> Self:
        """The labels that occur; none if the examples have scores."""
        counts = Counter(example.label for example in examples if example.label is not None)
        scored = sum(example.score is not None for example in examples)
        if counts and scored:
            raise InputError(f"{scored} examples have a score and {counts.total()} a label", fix="give one of the two")
        if counts and config.head == "bi":
            fix = "give scores, or use head=cross"
            raise InputError("a bi-encoder is trained on scores, but the examples have labels", fix=fix)
        if len(counts) == 1:
            raise InputError(f"all examples have the label '{next(iter(counts))}'", fix="give at least two labels")
        low, high = config.score_range
        for example in examples:
            if example.score is not None and not low <= example.score <= high:
                fix = "set score_range=[LOWEST,HIGHEST] of your data"
                raise InputError(f"a score is {example.score}, outside score_range {low} to {high}", fix=fix)
        labels = tuple(sorted(counts))
        return cls(config, FittedState(labels=labels, label_counts=tuple(counts[label] for label in labels)))

    @classmethod
    @override
    def gold_labels(cls, example: SimilarityExample) -> Iterable[str]:
        return () if example.label is None else (example.label,)

    @override
    def encode(self, examples: Sequence[SimilarityExample], windower: Windower, *, labelled: bool) -> list[Sample]:
        """Both texts in one sequence, or a sequence for each."""
        tokens_a = windower.tokenize([example.text_a for example in examples])
        tokens_b = windower.tokenize([example.text_b for example in examples])
        samples = []
        for index, example in enumerate(examples):
            targets = self._targets(example) if labelled else {}
            if self.config.head == "cross":
                samples += [
                    Sample(example=index, sequences=(w.sequence,), targets=targets, truncated=w.truncated)
                    for w in windower.pair(tokens_a[index], tokens_b[index])
                ]
                continue
            sides = [windower.single(tokens) for tokens in (tokens_a[index], tokens_b[index])]
            side = np.repeat([0, 1], [len(windows) for windows in sides])
            windows = [window for side_windows in sides for window in side_windows]
            samples.append(
                Sample(
                    example=index,
                    sequences=tuple(window.sequence for window in windows),
                    features={"side": side.astype(np.int64)},
                    targets=targets,
                    truncated=any(window.truncated for window in windows),
                )
            )
        return samples

    def _targets(self, example: SimilarityExample) -> dict[str, NDArray[np.generic]]:
        if example.score is None:
            assert example.label is not None
            return {"label": np.array([self._label_index[example.label]], np.int64)}
        low, high = self.config.score_range
        score = (example.score - low) / (high - low) if self.config.head == "bi" else example.score
        return {"score": np.array([score], np.float32)}

    @override
    def head(self, encoder: "Encoder") -> "Head":
        """A sequence head; a bi-encoder has no layers."""
        from spanlab.tasks.heads import BiHead, SequenceTaskHead, balanced_weights

        if self.config.head == "bi":
            return BiHead()
        balanced = self.config.class_weights == "balanced" and self.fitted.labels
        weights = balanced_weights(self.fitted.label_counts) if balanced else None
        return SequenceTaskHead(
            encoder,
            "label" if self.fitted.labels else "score",
            self.fitted.labels,
            smoothing=self.config.label_smoothing,
            weight_L=weights,
        )

    @override
    def decode(
        self, index: int, example: SimilarityExample, samples: Sequence[Sample], outputs: Sequence[Any]
    ) -> SimilarityResult | PairLabelResult:
        """The score in the range of the data, or the best label."""
        shared = common_fields(index, example.id, samples)
        if self.config.head == "bi":  # two whole texts are two sequences, counted as one window
            shared["windows"] = len(samples[0].sequences) - 1
        mean = np.asarray(np.mean(outputs, axis=0, dtype=np.float64))
        sources = (example.text_a, example.text_b)
        if self.config.head == "bi":
            low, high = self.config.score_range
            return SimilarityResult(**shared, score=low + float(mean) * (high - low), sources=sources)
        if not self.fitted.labels:
            return SimilarityResult(**shared, score=float(mean[0]), sources=sources)
        probabilities = softmax(mean).tolist()
        scores = dict(zip(self.fitted.labels, probabilities, strict=True))
        best = max(scores, key=scores.__getitem__)
        return PairLabelResult(**shared, label=best, scores=scores, sources=sources)

    @override
    def empty_result(self, index: int, example: SimilarityExample) -> SimilarityResult | PairLabelResult:
        shared = empty_fields(index, example.id)
        return PairLabelResult(**shared, label=None) if self.fitted.labels else SimilarityResult(**shared, score=None)

    # ---- score

    @override
    def read_result(self, row: Row, index: int, example: SimilarityExample) -> SimilarityResult | PairLabelResult:
        """From `score` or `label`, whichever the gold pair has."""
        name = result_id(index, example.id)
        if example.score is None:
            for problem in label_problems(row, "label"):
                raise problem.error(row)
            return PairLabelResult(id=name, label=str(row.values["label"]).strip())
        if row.values.get("score") is None:
            raise row.error("the field 'score' is missing", fix="the gold pairs have scores")
        for problem in _score_problems(row):
            raise problem.error(row)
        return SimilarityResult(id=name, score=float(row.values["score"]))

    @override
    def score(
        self, examples: Sequence[SimilarityExample], results: Sequence[SimilarityResult | PairLabelResult]
    ) -> Scores:
        """Pearson and Spearman of scores; accuracy, macro F1 and MCC of labels."""
        labels = [result.label or "" for result in results if isinstance(result, PairLabelResult)]
        if labels:
            gold = [example.label or "" for example in examples]
            return Scores(
                task=self.name,
                count=len(gold),
                metrics=score_classes(gold, labels),
                per_label=class_table(gold, labels),
                confusion=confusion_matrix(gold, labels),
            )
        scores = [result.score or 0.0 for result in results if isinstance(result, SimilarityResult)]
        gold_scores = [example.score or 0.0 for example in examples]
        return Scores(task=self.name, count=len(gold_scores), metrics=score_similarity(gold_scores, scores))

    @override
    def score_counts(
        self, examples: Sequence[SimilarityExample], results: Sequence[SimilarityResult | PairLabelResult]
    ) -> ScoreCounts:
        """Of the accuracy of labels; of scores, the pairs that are ranked."""
        scores = [result.score or 0.0 for result in results if isinstance(result, SimilarityResult)]
        if not scores:
            return super().score_counts(examples, results)
        pairs = np.array([[example.score or 0.0 for example in examples], scores], np.float64).T
        return ScoreCounts(metric=self.primary, rule="spearman", counts_UC=pairs)

    @override
    def mistake(self, example: SimilarityExample, result: SimilarityResult | PairLabelResult) -> Mistake | None:
        """A wrong label, or a score that is off by more than a tenth of the range."""
        shown = f"{escape(example.text_a)}<br>{escape(example.text_b)}"
        if isinstance(result, PairLabelResult):
            if result.label == example.label:
                return None
            predicted = result.label or ""
            badness = result.scores.get(predicted, 1.0)
            return Mistake(badness=badness, shown=shown, gold=example.label or "", predicted=predicted)
        low, high = self.config.score_range
        score = result.score or 0.0
        off = abs(score - (example.score or 0.0)) / (high - low)
        gold, predicted = f"{example.score:.2f}", f"{score:.2f}"
        return Mistake(badness=off, shown=shown, gold=gold, predicted=predicted) if off > 0.1 else None
