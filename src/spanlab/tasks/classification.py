"""Classification: one label per text or a set of labels, for sentences and documents of any length.

A text enters; its label leaves with a score for every label. A long text is computed in windows: in training each
window carries the text's label, in prediction the logits of the windows are averaged. The head is the one that
transformers has for sequences, so a model of this task loads there.

Shapes: S samples, L labels, E examples.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from spanlab.arrays import Flags
from spanlab.config import AtLeast, Below
from spanlab.errors import ConfigError, InputError, clip_repr
from spanlab.metrics.classification import (
    class_table,
    confusion_matrix,
    label_set_table,
    score_classes,
    score_label_sets,
)
from spanlab.metrics.precision_recall import f1_counts
from spanlab.metrics.score_counts import ScoreCounts
from spanlab.tasks.base import FittedState, Task
from spanlab.tasks.config import Pooling, TaskConfig
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.probabilities import sigmoid, softmax
from spanlab.tasks.result import Mistake, Result, Scores, common_fields, empty_fields, result_id
from spanlab.tasks.sample import Sample
from spanlab.tasks.validation import Problem, is_label, label_problems, read_id, text_problems
from spanlab.tasks.windows import Windower

if TYPE_CHECKING:
    from spanlab.encoder import Encoder
    from spanlab.tasks.head import Head

# ---- Config


@dataclass(frozen=True, kw_only=True)
class ClassificationConfig(TaskConfig):
    """Settings of classification."""

    multi_label: bool | None = None
    """Whether a text has a set of labels; None: decided by the data, which have `labels` or `label`."""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: labels are weighted in inverse proportion to their frequency."""
    label_smoothing: Annotated[float, AtLeast(0), Below(1)] = 0.0
    """The share of each target's probability that is spread over all labels."""
    pooling: Pooling = "first"
    """first: the label follows from [CLS] (of causal encoders: the last token), as published; mean: from the mean of
    all tokens, which suits sentence encoders such as MiniLM and encoders trained without sentence pairs."""
    auxiliary_lm: Annotated[float, AtLeast(0)] = 0.0
    """The weight of an additional language model loss, on a causal encoder; GPT's is 0.5."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.multi_label and self.label_smoothing:
            raise ConfigError("label_smoothing needs one label per text", fix="remove it, or use multi_label=false")


# ---- read


@dataclass(frozen=True, kw_only=True)
class ClassificationExample:
    """A text, and its labels where they are known."""

    id: str | None
    text: str
    labels: tuple[str, ...] = ()
    multi_label: bool = False
    """Whether `labels` is a set of any size, from the field `labels`, and not the one `label`."""


def _set_problems(value: object) -> Iterator[Problem]:
    if isinstance(value, str):
        return
    if not isinstance(value, list | tuple) or not all(map(is_label, value)):
        yield Problem(kind="wrong type", cause=f"'labels' is {clip_repr(value)}; it must be a list of labels")
    elif len(set(map(str, value))) < len(value):
        yield Problem(
            kind="duplicate label", cause=f"'labels' is {clip_repr(value)}, which repeats a label", serious=False
        )


def _read_set(value: Any) -> tuple[str, ...]:  # noqa: ANN401 (checked before)
    """A list of labels; in a table, separated by commas."""
    names = value.split(",") if isinstance(value, str) else value
    return tuple(sorted({str(name).strip() for name in names} - {""}))


# ---- decode


@dataclass(frozen=True, kw_only=True)
class ClassificationResult(Result):
    """The label of a text, and the probability of every label."""

    label: str | None
    """None, as is the score, if the text is empty."""
    score: float | None
    scores: Mapping[str, float] = field(default_factory=dict)
    source: str = field(default="", metadata={"json": False})
    """The text."""

    def to_html(self) -> str:
        """The text, the label, and a bar for every score."""
        label = f"<b>{escape(self.label or '')}</b>"
        return f"<div class='classification'>{paragraph(self.source)}{label}{bars(self.scores)}</div>"


@dataclass(frozen=True, kw_only=True)
class LabelSetResult(Result):
    """The labels of a text, and the independent probability of every label."""

    labels: tuple[str, ...]
    scores: Mapping[str, float] = field(default_factory=dict)
    source: str = field(default="", metadata={"json": False})
    """The text."""

    def to_html(self) -> str:
        """The text, the labels, and a bar for every score."""
        labels = f"<b>{escape(', '.join(self.labels))}</b>"
        return f"<div class='classification'>{paragraph(self.source)}{labels}{bars(self.scores)}</div>"


def paragraph(text: str) -> str:
    """A text as an HTML paragraph with its line breaks; nothing for an empty text."""
    return f"<p style='white-space:pre-wrap'>{escape(text)}</p>" if text else ""


def bars(scores: Mapping[str, float]) -> str:
    """An HTML table with the name, the score and a bar for every label."""
    rows = (
        f"<tr><td>{escape(label)}</td><td>{score:.3f}</td><td><div style='background:#4a90d9;height:.7em;"
        f"width:{10 * max(0.0, min(1.0, score)):.2f}em'></div></td></tr>"
        for label, score in sorted(scores.items(), key=lambda item: -item[1])
    )
    return f"<table>{''.join(rows)}</table>"


# ---- the task

_THRESHOLD = "labels"
_THRESHOLDS = tuple(step / 20 for step in range(1, 20))


class Classification(Task[ClassificationExample, ClassificationResult | LabelSetResult]):
    """Texts to labels."""

    name: ClassVar[str] = "classification"
    Config: ClassVar[type[TaskConfig]] = ClassificationConfig
    shape: ClassVar[FileShape] = FileShape(
        fields={
            "id": ("guid", "idx", "index"),
            "text": ("sentence", "document", "text_a", "review", "content", "comment", "body"),
            "label": ("class", "category", "sentiment"),
            "labels": ("classes", "categories", "tags"),
        },
        required=("text",),
    )

    config: ClassificationConfig

    def __init__(self, config: ClassificationConfig, fitted: FittedState) -> None:
        self.config, self.fitted = config, fitted
        self._label_index = {label: index for index, label in enumerate(fitted.labels)}

    @override
    def check_fitted(self) -> None:
        if self.config.multi_label and _THRESHOLD not in self.fitted.thresholds:
            raise ConfigError(f"'thresholds' has no '{_THRESHOLD}'", fix="restore the file")

    @property
    @override
    def primary(self) -> str:
        """Accuracy; micro F1 of label sets."""
        return "f1" if self.config.multi_label else "accuracy"

    @classmethod
    @override
    def problems(cls, row: Row, *, labelled: bool = True) -> Iterator[Problem]:
        yield from text_problems(row, "text")
        if not labelled:
            return
        if "labels" in row.values and "label" not in row.values:
            yield from _set_problems(row.values["labels"])
        else:
            yield from label_problems(row, "label")

    @classmethod
    @override
    def parse(cls, row: Row, *, labelled: bool) -> ClassificationExample:
        multi_label = "labels" in row.values and "label" not in row.values
        labels: tuple[str, ...] = ()
        if labelled:
            value = row.values["labels" if multi_label else "label"]
            labels = _read_set(value) if multi_label else (str(value).strip(),)
        return ClassificationExample(id=read_id(row), text=row.values["text"], labels=labels, multi_label=multi_label)

    @classmethod
    @override
    def fit(cls, config: ClassificationConfig, examples: Sequence[ClassificationExample]) -> Self:
        """All labels that occur, in alphabetical order."""
        multi_label = any(example.multi_label for example in examples)
        if config.multi_label is None:
            config = replace(config, multi_label=multi_label)
        if multi_label and not config.multi_label:
            raise InputError("the file has 'labels', a set for each text", fix="use multi_label=true, or write 'label'")
        counts = Counter(label for example in examples for label in example.labels)
        if len(counts) < (1 if config.multi_label else 2):
            only = f"all examples have the label '{next(iter(counts))}'" if counts else "no example has a label"
            raise InputError(only, fix="give examples of at least two labels")
        labels = tuple(sorted(counts))
        thresholds = {_THRESHOLD: 0.5} if config.multi_label else {}
        label_counts = tuple(counts[label] for label in labels)
        fitted = FittedState(labels=labels, label_counts=label_counts, thresholds=thresholds)
        return cls(config, fitted)

    @classmethod
    @override
    def gold_labels(cls, example: ClassificationExample) -> Iterable[str]:
        return example.labels

    @override
    def encode(self, examples: Sequence[ClassificationExample], windower: Windower, *, labelled: bool) -> list[Sample]:
        tokens = windower.tokenize([example.text for example in examples])
        return [
            Sample(
                example=index,
                sequences=(window.sequence,),
                targets=self._targets(example) if labelled else {},
                truncated=window.truncated,
            )
            for index, example in enumerate(examples)
            for window in windower.single(tokens[index])
        ]

    def _targets(self, example: ClassificationExample) -> dict[str, NDArray[np.generic]]:
        indices = [self._label_index[label] for label in example.labels]
        if not self.config.multi_label:
            return {"label": np.array(indices, np.int64)}
        target = np.zeros((1, len(self._label_index)), np.float32)
        target[0, indices] = 1.0
        return {"labels": target}

    # ---- head

    @override
    def head(self, encoder: "Encoder") -> "Head":
        from spanlab.tasks.heads import AuxiliaryLMHead, SequenceTaskHead, balanced_weights

        balanced = self.config.class_weights == "balanced"
        head = SequenceTaskHead(
            encoder,
            "labels" if self.config.multi_label else "label",
            self.fitted.labels,
            pooling=self.config.pooling,
            smoothing=self.config.label_smoothing,
            weight_L=balanced_weights(self.fitted.label_counts) if balanced else None,
        )
        return AuxiliaryLMHead(head, encoder, self.config.auxiliary_lm) if self.config.auxiliary_lm else head

    @override
    def decode(
        self,
        index: int,
        example: ClassificationExample,
        samples: Sequence[Sample],
        outputs: Sequence[NDArray[np.float32]],
    ) -> ClassificationResult | LabelSetResult:
        """The best label, or all above the threshold."""
        logits_L = np.asarray(np.mean(outputs, axis=0, dtype=np.float64))
        shared = common_fields(index, example.id, samples)
        if self.config.multi_label:
            scores = dict(zip(self.fitted.labels, sigmoid(logits_L).tolist(), strict=True))
            threshold = self.fitted.thresholds[_THRESHOLD]
            chosen = tuple(label for label, score in scores.items() if score > threshold)
            return LabelSetResult(**shared, labels=chosen, scores=scores, source=example.text)
        scores = dict(zip(self.fitted.labels, softmax(logits_L).tolist(), strict=True))
        best = max(scores, key=scores.__getitem__)
        return ClassificationResult(**shared, label=best, score=scores[best], scores=scores, source=example.text)

    @override
    def empty_result(self, index: int, example: ClassificationExample) -> ClassificationResult | LabelSetResult:
        shared = empty_fields(index, example.id)
        if self.config.multi_label:
            return LabelSetResult(**shared, labels=())
        return ClassificationResult(**shared, label=None, score=None)

    @override
    def tune(
        self,
        examples: Sequence[ClassificationExample],
        samples: Sequence[Sequence[Sample]],
        outputs: Sequence[Sequence[NDArray[np.float32]]],
    ) -> "Classification":
        """With sets of labels, the threshold that gives the best micro F1; of equals the one nearest to a half."""
        if not self.config.multi_label:
            return self
        scores_EL = 1 / (1 + np.exp(-np.stack([np.mean(windows, axis=0, dtype=np.float64) for windows in outputs])))
        gold_EL = np.concatenate([self._targets(example)["labels"] for example in examples]) > 0.5
        best = max(_THRESHOLDS, key=lambda t: (_micro_f1(gold_EL, scores_EL > t), -abs(t - 0.5)))
        fitted = replace(self.fitted, thresholds={_THRESHOLD: best})
        return Classification(self.config, fitted)

    # ---- score

    @override
    def read_result(
        self, row: Row, index: int, example: ClassificationExample
    ) -> ClassificationResult | LabelSetResult:
        """From `label`, or from `labels` if the example has a label set."""
        name = result_id(index, example.id)
        if example.multi_label:
            for problem in _set_problems(row.values.get("labels")):
                raise problem.error(row)
            return LabelSetResult(id=name, labels=_read_set(row.values["labels"]))
        for problem in label_problems(row, "label"):
            raise problem.error(row)
        return ClassificationResult(id=name, label=str(row.values["label"]).strip(), score=1.0)

    @override
    def score(
        self,
        examples: Sequence[ClassificationExample],
        results: Sequence[ClassificationResult | LabelSetResult],
    ) -> Scores:
        """Accuracy, macro F1 and MCC; with sets of labels micro precision, recall and F1 in place of MCC."""
        sets = [result.labels for result in results if isinstance(result, LabelSetResult)]
        if sets:
            gold_sets = [example.labels for example in examples]
            metrics, table = score_label_sets(gold_sets, sets), label_set_table(gold_sets, sets)
        else:
            gold = [example.labels[0] for example in examples]
            predicted = [result.label or "" for result in results if isinstance(result, ClassificationResult)]
            metrics, table = score_classes(gold, predicted), class_table(gold, predicted)
        confusion = None if sets else confusion_matrix(gold, predicted)
        return Scores(task=self.name, count=len(examples), metrics=metrics, per_label=table, confusion=confusion)

    @override
    def score_counts(
        self,
        examples: Sequence[ClassificationExample],
        results: Sequence[ClassificationResult | LabelSetResult],
    ) -> ScoreCounts:
        """Of accuracy; with sets of labels, of micro F1."""
        sets = [result.labels for result in results if isinstance(result, LabelSetResult)]
        return (
            f1_counts([example.labels for example in examples], sets)
            if sets
            else super().score_counts(examples, results)
        )

    @override
    def mistake(self, example: ClassificationExample, result: ClassificationResult | LabelSetResult) -> Mistake | None:
        """A wrong label, or a label set that is not exactly right."""
        predicted = result.labels if isinstance(result, LabelSetResult) else (result.label or "",)
        wrong = set(predicted) ^ set(example.labels)
        if not wrong:
            return None
        badness = max(abs(result.scores.get(label, 1.0) - (label not in predicted)) for label in wrong)
        shown, gold = escape(example.text), ", ".join(example.labels)
        return Mistake(badness=badness, shown=shown, gold=gold, predicted=", ".join(predicted))


def _micro_f1(gold_EL: Flags, predicted_EL: Flags) -> float:
    correct = int((gold_EL & predicted_EL).sum())
    total = int(gold_EL.sum() + predicted_EL.sum())
    return 2 * correct / total if total else 0.0
