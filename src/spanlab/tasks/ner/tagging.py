"""`head=tag`: a BIO tag for every unit, from its first token, decoded to the best valid sequence.

Shapes: N tokens, U units, C tags.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from spanlab.arrays import Flags
from spanlab.tasks.host_head import HostHead, by_feature, one_graph
from spanlab.tasks.ner.config import NerConfig
from spanlab.tasks.ner.data import NerExample
from spanlab.tasks.ner.decode import best_tags, best_word_tags, span_scores, spans_to_tags, tag_names, tags_to_spans
from spanlab.tasks.ner.method import EntityMethod, ScoredSpan
from spanlab.tasks.sample import Arrays, Sample
from spanlab.tasks.spans.units import GoldUnits, LabelUnits, unit_spans
from spanlab.tasks.windows import InputWindow

if TYPE_CHECKING:
    from spanlab.encoder import Encoder
    from spanlab.tasks.ner.tag_head import TagHead


class Tagging(EntityMethod):
    """Entities as tags of units; they cannot overlap."""

    represents_overlap = False

    @classmethod
    @override
    def output_names(cls, entity_labels: Sequence[str]) -> tuple[str, ...]:
        return tag_names(entity_labels)

    @classmethod
    @override
    def count_outputs(
        cls, config: NerConfig, entity_labels: Sequence[str], examples: Sequence[NerExample]
    ) -> tuple[int, ...]:
        assert config.units != "auto", "decided before labels are counted"
        index = {label: index for index, label in enumerate(entity_labels)}
        counts = np.zeros(1 + 2 * len(entity_labels), dtype=np.int64)
        for example in examples:
            starts, ends = unit_spans(example.text, config.units)
            counts[0] += len(starts)
            for span in example.spans:
                # The units that share a character with the span.
                width = int(np.searchsorted(starts, span.end) - np.searchsorted(ends, span.start, side="right"))
                counts[1 + 2 * index[span.label]] += 1
                counts[2 + 2 * index[span.label]] += max(0, width - 1)
                counts[0] -= width
        return tuple(counts.clip(min=0).tolist())

    @override
    def arrays(
        self, units: LabelUnits, window: InputWindow, is_best_N: Flags, gold: GoldUnits | None
    ) -> tuple[Arrays, Arrays]:
        kept = np.flatnonzero(units.first_tokens < len(is_best_N))  # beyond it, text was cut off
        kept = kept[is_best_N[units.first_tokens[kept]]]
        features = {
            "positions": units.first_tokens[kept] - window.first.start + window.first_start,
            "starts": units.starts[kept],
            "ends": units.ends[kept],
            "begins_inside": units.begins_inside[kept],
            "ends_inside": units.ends_inside[kept],
        }
        if gold is None:
            return features, {}
        return features, {"tags": spans_to_tags(gold.first, gold.last, gold.labels, len(units))[kept]}

    @override
    def layers(self, encoder: "Encoder") -> "TagHead":
        from spanlab.tasks.ner.tag_head import TagHead

        counts = self.fitted.label_counts if self.config.class_weights == "balanced" else ()
        return TagHead(encoder.config, self.fitted.labels, smoothing=self.config.label_smoothing, counts=counts)

    @property
    @override
    def host_head(self) -> HostHead:
        return one_graph(by_feature("positions"))

    @override
    def decode(self, samples: Sequence[Sample], outputs: Sequence[NDArray[np.float32]]) -> Iterator[ScoredSpan]:
        logits_UC = np.concatenate(outputs)
        starts, ends, begins_inside, ends_inside = (
            np.concatenate([sample.features[name] for sample in samples])
            for name in ("starts", "ends", "begins_inside", "ends_inside")
        )
        whole_words = self.config.whole_words is not False
        tags = best_word_tags(logits_UC, begins_inside) if whole_words else best_tags(logits_UC)
        first, last, labels = tags_to_spans(tags)
        scores = span_scores(logits_UC, tags, first, last)
        # Only where a text was cut off inside a word can an entity still end inside it.
        kept = np.flatnonzero(~ends_inside[last]) if whole_words else np.arange(len(first))
        found = (starts[first[kept]], ends[last[kept]], labels[kept], scores[kept])
        yield from zip(*(values.tolist() for values in found), strict=True)
