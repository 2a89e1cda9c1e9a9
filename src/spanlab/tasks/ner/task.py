"""Named entities: spans of a text with labels, by tags or by candidate spans.

`head=tag` gives every word (or piece, or character) a BIO tag and decodes the best valid sequence: entities do not
overlap. `head=span` looks at every span of up to `span.max_width` units and labels it or not: entities may nest.

A long text is computed in windows. Each unit, and each candidate span, belongs to the one window where it has most
context, in training as in prediction; what decoding puts together is thus what one window alone computed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from spanlab.arrays import Flags
from spanlab.encoder import Encoder
from spanlab.errors import ConfigError, InputError
from spanlab.metrics.entities import entity_table, score_entities
from spanlab.tasks.base import FittedState, Task
from spanlab.tasks.config import TaskConfig
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.losses import balanced_weights
from spanlab.tasks.ner.data import Entity, NerResult
from spanlab.tasks.ner.decode import best_tags, span_scores, spans_to_tags, tag_names, tags_to_spans
from spanlab.tasks.ner.heads import EntitySpanHead, SpanLabels, TagHead, candidate_counts, tag_counts
from spanlab.tasks.result import Mistake, Scores, about
from spanlab.tasks.sample import Arrays, Sample
from spanlab.tasks.spans.labelled import TextSpan, are_nested, read_spans, span_problems
from spanlab.tasks.spans.pruning import Conflict, without_conflicts
from spanlab.tasks.spans.representation import SpanConfig, enumerate_spans
from spanlab.tasks.spans.units import GoldUnits, LabelUnits, choose_units, encode_units, find_gold
from spanlab.tasks.validation import Problem, read_id, text_problems
from spanlab.tasks.windows import InputWindow, Windower
from spanlab.text.windows import best_windows
from spanlab.training.config import TrainingConfig

# ---- Config


@dataclass(frozen=True, kw_only=True)
class NerConfig(TaskConfig):
    """Entity recognition; the training defaults are those of BERT's paper."""

    head: Literal["tag", "span"] = "tag"
    """A tag for every unit, or a label for every candidate span, which lets entities nest."""
    units: Literal["auto", "word", "piece", "character"] = "auto"
    """What carries labels; auto: words if the training data's entities begin and end at words, else characters."""
    nested: bool | None = None
    """Whether entities of `head=span` may lie inside each other; None: told from the training data."""
    span: SpanConfig = field(default_factory=lambda: SpanConfig(max_width=12))
    """Candidate spans: how wide, in units, and what their vectors are made of."""
    inner_width: int = 150
    """Of the layer between a span's vector and its label."""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: rare tags, or labels of candidate spans, weigh more, in inverse proportion to their number."""
    label_smoothing: float = 0.0
    training: TrainingConfig = field(default_factory=lambda: TrainingConfig(lr=5e-5, batch_size=32, epochs=3.0))

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ConfigError(f"'label_smoothing' is {self.label_smoothing}; it must be at least 0 and below 1")
        if self.inner_width < 1:
            raise ConfigError(f"'inner_width' is {self.inner_width}; it must be at least 1")


# ---- read


@dataclass(frozen=True, kw_only=True)
class NerExample:
    """A text and its entities."""

    id: str | None
    text: str
    spans: tuple[TextSpan, ...]
    """In the order of the text."""
    row: Row = field(repr=False, compare=False)


class NamedEntities(Task[NerExample, NerResult]):
    """The task `ner`."""

    name: ClassVar[str] = "ner"
    Config: ClassVar[type[TaskConfig]] = NerConfig
    shape: ClassVar[FileShape] = FileShape(fields={"text": ("sentence",)}, required=("text",), labels="spans")

    config: NerConfig

    @classmethod
    @override
    def problems(cls, row: Row, *, labelled: bool = True) -> Iterator[Problem]:
        problems = list(text_problems(row, "text"))
        yield from problems
        if labelled and not any(problem.serious for problem in problems):
            yield from span_problems(row)

    @classmethod
    @override
    def parse(cls, row: Row, *, labelled: bool) -> NerExample:
        spans = read_spans(row.values["spans"]) if labelled else ()
        return NerExample(id=read_id(row), text=row.values["text"], spans=spans, row=row)

    @classmethod
    @override
    def fit(cls, config: NerConfig, examples: Sequence[NerExample]) -> Self:
        """The labels in alphabetical order, what carries them, and whether they nest."""
        counts = Counter(span.label for example in examples for span in example.spans)
        if not counts:
            raise InputError("the training data has no entity", fix="give texts with 'spans'")
        overlapping = next((example for example in examples if are_nested(example.spans)), None)
        if overlapping is not None and config.head == "tag":
            raise overlapping.row.error("entities overlap, which tags cannot say", "take head=span")
        if config.units == "auto":
            spans = [[(span.start, span.end) for span in example.spans] for example in examples]
            config = replace(config, units=choose_units([example.text for example in examples], spans))
        if config.nested is None:
            config = replace(config, nested=overlapping is not None)
        entities = tuple(sorted(counts))
        labels = tag_names(entities) if config.head == "tag" else ("O", *entities)
        counted = _label_counts(config, entities, examples) if config.class_weights == "balanced" else ()
        return cls(config, FittedState(labels=labels, entity_labels=entities, label_counts=counted))

    @classmethod
    @override
    def gold_labels(cls, example: NerExample) -> Iterable[str]:
        return (span.label for span in example.spans)

    # ---- encode

    @override
    def encode(self, examples: Sequence[NerExample], windower: Windower, *, labelled: bool) -> list[Sample]:
        """A sample a window; each has the units, or candidate spans, that no other window sees better."""
        assert self.config.units != "auto", "training decides what carries labels"
        all_units = encode_units(windower.tokenizer, [example.text for example in examples], self.config.units)
        return [
            sample
            for number, (example, units) in enumerate(zip(examples, all_units, strict=True))
            for sample in self._encode_one(number, example, units, windower, labelled=labelled)
        ]

    def _encode_one(
        self, number: int, example: NerExample, units: LabelUnits, windower: Windower, *, labelled: bool
    ) -> Iterator[Sample]:
        framed = windower.single(units.tokens)
        windows = [window.first for window in framed]
        best = best_windows(windows, windows[-1].end)
        gold = self._gold(example, units) if labelled else None
        for place, window in enumerate(framed):
            if self.config.head == "tag":
                features, targets = _unit_arrays(units, window, best == place, gold)
            else:
                features, targets = _span_arrays(units, window, best == place, gold, self.config.span.max_width)
            yield Sample(
                example=number,
                sequences=(window.sequence,),
                features=features,
                targets=targets,
                truncated=window.truncated,
            )

    def _gold(self, example: NerExample, units: LabelUnits) -> GoldUnits:
        """The entities as units; one that does not fit is refused, or left out if the config says so."""
        return find_gold(
            example.spans,
            example.row,
            units,
            self.fitted.entity_labels,
            max_width=self.config.span.max_width if self.config.head == "span" else None,
            refuse=self.config.data.bad_rows == "refuse",
        )

    # ---- Head

    @override
    def head(self, encoder: Encoder) -> TagHead | EntitySpanHead:
        config, labels = self.config, self.fitted.labels
        weights = balanced_weights(self.fitted.label_counts) if config.class_weights == "balanced" else None
        if config.head == "tag":
            return TagHead(encoder.config, labels, smoothing=config.label_smoothing, weight_C=weights)
        return EntitySpanHead(
            encoder.config,
            len(labels),
            config.span,
            inner_width=config.inner_width,
            smoothing=config.label_smoothing,
            weight_L=weights,
        )

    # ---- decode

    @override
    def decode(self, index: int, example: NerExample, samples: Sequence[Sample], outputs: Sequence[Any]) -> NerResult:
        """The entities of all windows together."""
        starts, ends = (np.concatenate([sample.features[name] for sample in samples]) for name in ("starts", "ends"))
        found = _entities_of_tags(outputs) if self.config.head == "tag" else self._entities_of_spans(samples, outputs)
        entities = [
            Entity(
                start=int(starts[first]),
                end=int(ends[last]),
                label=self.fitted.entity_labels[label],
                text=example.text[starts[first] : ends[last]],
                score=round(score, 6),
            )
            for first, last, label, score in found
        ]
        ordered = tuple(sorted(entities, key=lambda one: (one.start, one.end)))
        return NerResult(**about(index, example.id, samples), spans=ordered, source=example.text)

    def _entities_of_spans(self, samples: Sequence[Sample], outputs: Sequence[SpanLabels]) -> Iterator["Found"]:
        """Candidates with a label, from the surest on; none in conflict with a surer one."""
        labels = np.concatenate([output.labels for output in outputs])
        chosen = np.flatnonzero(labels > 0)
        scores = np.concatenate([output.scores for output in outputs])[chosen]
        starts, ends = (np.concatenate([sample.features[name] for sample in samples]) for name in ("starts", "ends"))
        conflict: Conflict = "crossing" if self.config.nested else "overlapping"
        kept = without_conflicts(starts[chosen], ends[chosen] - 1, scores, conflict=conflict)
        for place, score in zip(chosen[kept].tolist(), scores[kept].tolist(), strict=True):
            yield place, place, int(labels[place]) - 1, score

    # ---- score

    @override
    def read_result(self, row: Row, index: int, example: NerExample) -> NerResult:
        whole = Row(values={**row.values, "text": example.text}, path=row.path, line=row.line)
        for problem in span_problems(whole):
            if problem.kind in {"no spans", "incomplete span", "offset is no index", "empty label"}:
                raise problem.error(row)
        entities = (
            Entity(
                start=span["start"],
                end=span["end"],
                label=span["label"],
                text=example.text[span["start"] : span["end"]],
                score=float(span.get("score", 1.0)),
            )
            for span in row.values["spans"]
        )
        name = str(index) if example.id is None else example.id
        return NerResult(id=name, spans=tuple(entities), source=example.text)

    @override
    def score(self, examples: Sequence[NerExample], results: Sequence[NerResult]) -> Scores:
        gold = [[(span.start, span.end, span.label) for span in example.spans] for example in examples]
        predicted = [[(span.start, span.end, span.label) for span in result.spans] for result in results]
        metrics, table = score_entities(gold, predicted), entity_table(gold, predicted)
        return Scores(task=self.name, count=len(examples), metrics=metrics, per_label=table)

    @override
    def mistake(self, example: NerExample, result: NerResult) -> Mistake | None:
        """Entities that were missed, and wrong ones, which weigh as much as the model was sure of them."""
        gold = {(span.start, span.end, span.label) for span in example.spans}
        found = {(span.start, span.end, span.label): span.score for span in result.spans}
        missed = gold - found.keys()
        badness = len(missed) + sum(score for span, score in found.items() if span not in gold)
        if not badness:
            return None
        wanted, given = (
            ", ".join(f"{example.text[start:end]} ({label})" for start, end, label in sorted(spans))
            for spans in (gold, found)
        )
        return Mistake(badness=badness, shown=result.to_html(), gold=wanted, predicted=given)


Found = tuple[int, int, int, float]
"""Numbers of the first and last unit (of a candidate span twice its own), the label, the score."""


def _label_counts(config: NerConfig, labels: Sequence[str], examples: Sequence[NerExample]) -> tuple[int, ...]:
    """How often each of the head's outputs is right."""
    assert config.units != "auto", "decided before labels are counted"
    texts, spans = [example.text for example in examples], [example.spans for example in examples]
    if config.head == "tag":
        return tag_counts(texts, spans, labels, config.units)
    return candidate_counts(texts, spans, labels, config.units, config.span.max_width)


def _unit_arrays(units: LabelUnits, window: InputWindow, own: Flags, gold: GoldUnits | None) -> tuple[Arrays, Arrays]:
    """The units that a window sees best: their place in its sequence, their characters, and their tags."""
    known = units.first_tokens < len(own)  # beyond it, text was cut off
    chosen = np.flatnonzero(known)[own[units.first_tokens[known]]]
    features = {
        "places": units.first_tokens[chosen] - window.first.start + window.first_start,
        "starts": units.starts[chosen],
        "ends": units.ends[chosen],
    }
    if gold is None:
        return features, {}
    return features, {"tags": spans_to_tags(gold.first, gold.last, gold.labels, len(units))[chosen]}


def _span_arrays(
    units: LabelUnits, window: InputWindow, own: Flags, gold: GoldUnits | None, max_width: int
) -> tuple[Arrays, Arrays]:
    """The candidate spans that lie in a window and whose middle it sees best, and their labels."""
    begin = int(np.searchsorted(units.first_tokens, window.first.start))
    stop = int(np.searchsorted(units.last_tokens, window.first.end))
    first, last = enumerate_spans(np.array([begin]), np.array([max(0, stop - begin)]), max_width)
    middle = (units.first_tokens[first] + units.last_tokens[last]) // 2
    first, last = first[own[middle]], last[own[middle]]
    shift = window.first_start - window.first.start
    features = {
        "first": units.first_tokens[first] + shift,
        "last": units.last_tokens[last] + shift,
        "widths": last - first + 1,
        "starts": units.starts[first],
        "ends": units.ends[last],
    }
    if gold is None:
        return features, {}
    labels = np.zeros(len(first), dtype=np.int64)
    keys = first * len(units) + last  # ascending, as candidates come in order
    wanted = gold.first * len(units) + gold.last
    places = np.searchsorted(keys, wanted)
    found = np.isin(wanted, keys)
    labels[places[found]] = gold.labels[found] + 1
    return features, {"labels": labels}


def _entities_of_tags(outputs: Sequence[NDArray[np.float32]]) -> Iterator[Found]:
    scores = np.concatenate(outputs)
    tags = best_tags(scores, np.array([len(scores)]))
    first, last, labels = tags_to_spans(tags)
    sure = span_scores(scores, tags, first, last)
    yield from zip(first.tolist(), last.tolist(), labels.tolist(), sure.tolist(), strict=True)
