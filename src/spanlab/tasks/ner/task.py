"""Named entities: spans of a text with labels, by tags of its units or by labels of candidate spans."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from typing_extensions import override

from spanlab.errors import ConfigError, InputError
from spanlab.metrics.entities import entity_table, score_entities
from spanlab.metrics.precision_recall import f1_counts
from spanlab.metrics.score_counts import ScoreCounts
from spanlab.tasks.base import FittedState, Task
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.host_head import HostHead
from spanlab.tasks.ner.config import NerConfig
from spanlab.tasks.ner.data import Entity, NerExample, NerResult, example_problems, parse_example, read_prediction
from spanlab.tasks.ner.method import EntityMethod
from spanlab.tasks.ner.span_classification import SpanClassification
from spanlab.tasks.ner.tagging import Tagging
from spanlab.tasks.result import Mistake, Scores, common_fields, empty_fields
from spanlab.tasks.sample import Sample
from spanlab.tasks.spans.labelled import are_nested
from spanlab.tasks.spans.units import LabelUnits, choose_units, encode_units, find_gold, tokens_in_spans, widest_span
from spanlab.tasks.validation import Problem
from spanlab.tasks.windows import Windower
from spanlab.text.whole_words import are_mostly_whole
from spanlab.text.windows import best_windows

if TYPE_CHECKING:
    from spanlab.encoder import Encoder
    from spanlab.tasks.head import Head

HEADS: Mapping[str, type[EntityMethod]] = {"tag": Tagging, "span": SpanClassification}
"""Heads by `config.head`; a new head is a file and a row here."""
MAX_RAISED_WIDTH = 64
"""Up to here `span.max_width` follows the training data; cost grows with it, so more has to be asked for."""


class NamedEntities(Task[NerExample, NerResult]):
    """The task `ner`."""

    name = "ner"
    Config = NerConfig
    shape = FileShape(fields={"text": ("sentence",)}, required=("text",), labels="spans")

    config: NerConfig

    def __init__(self, config: NerConfig, fitted: FittedState) -> None:
        super().__init__(config, fitted)
        self._method = HEADS[config.head](config, fitted)

    # ---- read

    @classmethod
    @override
    def problems(cls, row: Row, *, labelled: bool = True) -> Iterator[Problem]:
        return example_problems(row, labelled=labelled)

    @classmethod
    @override
    def parse(cls, row: Row, *, labelled: bool) -> NerExample:
        return parse_example(row, labelled=labelled)

    @classmethod
    @override
    def fit(cls, config: NerConfig, examples: Sequence[NerExample]) -> Self:
        """The labels in alphabetical order, the units that carry them, and whether entities nest."""
        entity_labels = tuple(sorted({span.label for example in examples for span in example.spans}))
        if not entity_labels:
            raise InputError("the training data has no entity", fix="give texts with 'spans'")
        method = HEADS[config.head]
        overlapping = next((example for example in examples if are_nested(example.spans)), None)
        if overlapping is not None and not method.represents_overlap:
            raise overlapping.row.error("entities overlap, which BIO tags cannot represent", "use head=span")
        texts = [example.text for example in examples]
        spans = [[(span.start, span.end) for span in example.spans] for example in examples]
        if config.units == "auto":
            config = replace(config, units=choose_units(texts, spans))
        if config.whole_words is None:
            config = replace(config, whole_words=are_mostly_whole(texts, spans))
        if config.nested is None:
            config = replace(config, nested=overlapping is not None)
        if config.head == "span" and config.data.bad_rows == "refuse":
            widest = widest_span(texts, spans, config.units)  # type: ignore[arg-type]
            if config.span.max_width < widest <= MAX_RAISED_WIDTH:
                config = replace(config, span=replace(config.span, max_width=widest))
        counted = config.head == "span" or config.class_weights == "balanced"
        fitted = FittedState(
            labels=method.output_names(entity_labels),
            entity_labels=entity_labels,
            label_counts=method.count_outputs(config, entity_labels, examples) if counted else (),
        )
        return cls(config, fitted)

    @classmethod
    @override
    def gold_labels(cls, example: NerExample) -> Iterable[str]:
        return (span.label for span in example.spans)

    @override
    def check_fitted(self) -> None:
        outputs = HEADS[self.config.head].output_names(self.fitted.entity_labels)
        if self.config.units == "auto" or self.fitted.labels != outputs:
            raise ConfigError("'labels', 'entity_labels' and the settings do not go together", fix="restore the file")

    @override
    def notes(self, config: NerConfig, dev: Sequence[NerExample]) -> list[str]:
        """A width that was raised, and entities of dev that are wider than any candidate."""
        if self.config.head != "span":
            return []
        width, notes = self.config.span.max_width, []
        if width > config.span.max_width:
            notes.append(f"entities of the training data are up to {width} units wide: span.max_width={width}")
        unit = self.config.units
        spans = [(example.text, span) for example in dev for span in example.spans]
        missed = sum(
            widest_span([text], [[(span.start, span.end)]], unit) > width  # type: ignore[arg-type]
            for text, span in spans
        )
        if missed:
            notes.append(f"{missed} of {len(spans)} dev entities are wider than span.max_width={width}: never found")
        return notes

    # ---- encode

    @override
    def encode(self, examples: Sequence[NerExample], windower: Windower, *, labelled: bool) -> list[Sample]:
        """A sample a window; each has the units, or candidate spans, that no other window gives more context."""
        assert self.config.units != "auto", "decided by `fit`"
        all_units = encode_units(windower.tokenizer, [example.text for example in examples], self.config.units)
        return [
            sample
            for index, (example, units) in enumerate(zip(examples, all_units, strict=True))
            for sample in self._encode_example(index, example, units, windower, labelled=labelled)
        ]

    def _encode_example(
        self, index: int, example: NerExample, units: LabelUnits, windower: Windower, *, labelled: bool
    ) -> Iterator[Sample]:
        windows = windower.single(units.tokens)
        best_N = best_windows([window.first for window in windows], windows[-1].first.end)
        gold = None
        if labelled:
            gold = find_gold(
                example.spans,
                example.row,
                units,
                self.fitted.entity_labels,
                max_width=self._method.max_width,
                refuse=self.config.data.bad_rows == "refuse",
            )
        is_entity_N = tokens_in_spans(units.tokens, ((span.start, span.end) for span in example.spans))
        for window_index, window in enumerate(windows):
            features, targets = self._method.arrays(units, window, best_N == window_index, gold)
            yield Sample(
                example=index,
                sequences=(window.sequence,),
                features=features,
                targets=targets,
                fixed=window.flags(first=is_entity_N),
                truncated=window.truncated,
            )

    # ---- head

    @override
    def head(self, encoder: "Encoder") -> "Head":
        return self._method.layers(encoder)

    @property
    @override
    def host_head(self) -> HostHead:
        return self._method.host_head

    # ---- decode

    @override
    def decode(self, index: int, example: NerExample, samples: Sequence[Sample], outputs: Sequence[Any]) -> NerResult:
        entities = [
            Entity(
                start=start,
                end=end,
                label=self.fitted.entity_labels[label],
                text=example.text[start:end],
                score=round(score, 6),
            )
            for start, end, label, score in self._method.decode(samples, outputs)
        ]
        entities.sort(key=lambda entity: (entity.start, entity.end))
        return NerResult(
            **common_fields(index, example.id, samples), spans=tuple(entities), source=example.text, words=example.words
        )

    @override
    def empty_result(self, index: int, example: NerExample) -> NerResult:
        return NerResult(**empty_fields(index, example.id), spans=(), source=example.text)

    # ---- score

    @override
    def read_result(self, row: Row, index: int, example: NerExample) -> NerResult:
        return read_prediction(row, index, example)

    @override
    def score(self, examples: Sequence[NerExample], results: Sequence[NerResult]) -> Scores:
        """Exact spans and labels."""
        gold, predicted = _spans(examples), _spans(results)
        metrics, table = score_entities(gold, predicted), entity_table(gold, predicted)
        return Scores(task=self.name, count=len(examples), metrics=metrics, per_label=table)

    @override
    def score_counts(self, examples: Sequence[NerExample], results: Sequence[NerResult]) -> ScoreCounts:
        return f1_counts(_spans(examples), _spans(results))

    @override
    def mistake(self, example: NerExample, result: NerResult) -> Mistake | None:
        """Missed entities, and wrong ones weighed by their scores."""
        gold = {(span.start, span.end, span.label) for span in example.spans}
        predicted = {(span.start, span.end, span.label): span.score for span in result.spans}
        missed = gold - predicted.keys()
        badness = len(missed) + sum(score for span, score in predicted.items() if span not in gold)
        if not badness:
            return None
        gold_text, predicted_text = (
            ", ".join(f"{example.text[start:end]} ({label})" for start, end, label in sorted(spans))
            for spans in (gold, predicted)
        )
        return Mistake(badness=badness, shown=result.to_html(), gold=gold_text, predicted=predicted_text)


def _spans(texts: Sequence[NerExample] | Sequence[NerResult]) -> list[list[tuple[int, int, str]]]:
    return [[(span.start, span.end, span.label) for span in text.spans] for text in texts]
