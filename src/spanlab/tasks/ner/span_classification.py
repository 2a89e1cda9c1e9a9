"""`head=span`: a label, or none, for every candidate span of up to `span.max_width` units; entities may nest.

Shapes: N tokens, S candidate spans.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from spanlab.arrays import Flags, Integers
from spanlab.tasks.host_head import HostHead, by_feature, one_graph
from spanlab.tasks.ner.config import NerConfig
from spanlab.tasks.ner.data import NerExample
from spanlab.tasks.ner.method import EntityMethod, ScoredSpan
from spanlab.tasks.probabilities import softmax
from spanlab.tasks.sample import Arrays, Sample, SampleBatch
from spanlab.tasks.spans.pruning import Conflict, without_conflicts
from spanlab.tasks.spans.units import GoldUnits, LabelUnits, unit_spans, window_spans
from spanlab.tasks.windows import InputWindow
from spanlab.text.whole_words import inside_words

if TYPE_CHECKING:
    from spanlab.encoder import Encoder
    from spanlab.tasks.ner.span_head import EntitySpanHead


@dataclass(frozen=True, eq=False, kw_only=True)
class SpanLabels:
    """The predicted labels of the candidates of one sample."""

    labels: Integers
    """(S,) the best label of each; 0 is none."""
    scores: NDArray[np.float32]
    """(S,) its probability."""


def best_labels(logits_SL: NDArray[np.float32], batch: SampleBatch) -> list[SpanLabels]:
    """The best label of each candidate and its probability: all that decoding needs of a long document."""
    probability_SL = softmax(logits_SL)
    labels_S = probability_SL.argmax(axis=-1)
    scores_S = probability_SL.max(axis=-1, initial=0.0).astype(np.float32)
    split = by_feature("first")
    parts = zip(split(labels_S, batch), split(scores_S, batch), strict=True)
    return [SpanLabels(labels=labels, scores=scores) for labels, scores in parts]


class SpanClassification(EntityMethod):
    """Entities as labelled candidate spans."""

    represents_overlap = True

    @classmethod
    @override
    def output_names(cls, entity_labels: Sequence[str]) -> tuple[str, ...]:
        return ("O", *entity_labels)

    @classmethod
    @override
    def count_outputs(
        cls, config: NerConfig, entity_labels: Sequence[str], examples: Sequence[NerExample]
    ) -> tuple[int, ...]:
        assert config.units != "auto", "decided before labels are counted"
        index = {label: index for index, label in enumerate(entity_labels, 1)}
        counts = np.zeros(1 + len(entity_labels), dtype=np.int64)
        for example in examples:
            starts, ends = unit_spans(example.text, config.units)
            inside = inside_words(example.text) if config.whole_words else np.zeros(len(example.text) + 1, bool)
            may_end = np.append(0, np.cumsum(~inside[ends]))  # ends before each unit
            firsts = np.flatnonzero(~inside[starts])
            stops = np.minimum(firsts + config.span.max_width, len(starts))
            counts[0] += (may_end[stops] - may_end[firsts]).sum() - len(example.spans)
            for span in example.spans:
                counts[index[span.label]] += 1
        return tuple(counts.clip(min=0).tolist())

    @property
    @override
    def max_width(self) -> int:
        return self.config.span.max_width

    @override
    def arrays(
        self, units: LabelUnits, window: InputWindow, is_best_N: Flags, gold: GoldUnits | None
    ) -> tuple[Arrays, Arrays]:
        """The candidates that lie in the window and whose middle no other window gives more context."""
        first, last, middle = window_spans(
            units, window, self.max_width, whole_words=self.config.whole_words is not False
        )
        first, last = first[is_best_N[middle]], last[is_best_N[middle]]
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
        gold_keys = gold.first * len(units) + gold.last
        inside = np.isin(gold_keys, keys)
        labels[np.searchsorted(keys, gold_keys[inside])] = gold.labels[inside] + 1
        return features, {"labels": labels}

    @override
    def layers(self, encoder: "Encoder") -> "EntitySpanHead":
        from spanlab.tasks.ner.span_head import EntitySpanHead

        config = self.config
        return EntitySpanHead(
            encoder.config,
            len(self.fitted.labels),
            config.span,
            inner_width=config.inner_width,
            smoothing=config.label_smoothing,
            counts=self.fitted.label_counts,
            balanced=config.class_weights == "balanced",
        )

    @property
    @override
    def host_head(self) -> HostHead:
        return one_graph(best_labels)

    @override
    def decode(self, samples: Sequence[Sample], outputs: Sequence[SpanLabels]) -> Iterator[ScoredSpan]:
        """Labelled candidates in the order of their scores, none in conflict with a better one."""
        labels = np.concatenate([output.labels for output in outputs])
        entities = np.flatnonzero(labels > 0)
        scores = np.concatenate([output.scores for output in outputs])[entities]
        starts, ends = (
            np.concatenate([sample.features[name] for sample in samples])[entities] for name in ("starts", "ends")
        )
        conflict: Conflict = "crossing" if self.config.nested else "overlapping"
        for index in without_conflicts(starts, ends - 1, scores, conflict=conflict).tolist():
            yield int(starts[index]), int(ends[index]), int(labels[entities[index]]) - 1, float(scores[index])
