"""Relations between entities of a text, which are given or predicted.

`head=markers` takes given entities and encodes the text once for each pair, with the pair marked: sentence
classification as for SemEval-2010 task 8 and TACRED. `head=pairs` takes given entities too, encodes the text once, and
scores all pairs by their span vectors. `head=joint` predicts the entities as well, with the same span vectors, from the
text alone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from typing_extensions import override

from spanlab.errors import InputError
from spanlab.metrics.precision_recall import f1_counts
from spanlab.metrics.relations import (
    EntityRelations,
    by_boundaries,
    by_boundaries_and_types,
    relation_label_table,
    score_given_relations,
    score_joint_relations,
)
from spanlab.metrics.score_counts import ScoreCounts
from spanlab.tasks.base import FittedState, Task
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.host_head import HostHead
from spanlab.tasks.relation.config import RelationConfig
from spanlab.tasks.relation.data import (
    RelationExample,
    RelationResult,
    example_problems,
    parse_example,
    read_prediction,
)
from spanlab.tasks.relation.decode import best_threshold
from spanlab.tasks.relation.given_pairs import GivenPairs
from spanlab.tasks.relation.joint_extraction import JointExtraction
from spanlab.tasks.relation.marked_pairs import MarkedPairs
from spanlab.tasks.relation.method import RelationMethod
from spanlab.tasks.result import Mistake, Scores, common_fields, empty_fields
from spanlab.tasks.sample import Sample
from spanlab.tasks.spans.labelled import are_nested
from spanlab.tasks.spans.units import choose_units, widest_span
from spanlab.tasks.validation import Problem
from spanlab.tasks.windows import Windower
from spanlab.text.whole_words import are_mostly_whole

if TYPE_CHECKING:
    from spanlab.encoder import Encoder
    from spanlab.tasks.head import Head

HEADS: Mapping[str, type[RelationMethod]] = {"markers": MarkedPairs, "pairs": GivenPairs, "joint": JointExtraction}
"""Heads by `config.head`; a new head is a file and a row here."""
_THRESHOLD = "relation"


class Relations(Task[RelationExample, RelationResult]):
    """The task `relation`."""

    name = "relation"
    Config = RelationConfig
    shape = FileShape(fields={"text": ("sentence",)}, required=("text",), labels="relations", optional=("entities",))

    config: RelationConfig

    def __init__(self, config: RelationConfig, fitted: FittedState) -> None:
        super().__init__(config, fitted)
        self._method = HEADS[config.head](config, fitted)

    # ---- read

    @classmethod
    @override
    def problems(cls, row: Row, *, labelled: bool = True) -> Iterator[Problem]:
        return example_problems(row, labelled=labelled)

    @classmethod
    @override
    def parse(cls, row: Row, *, labelled: bool) -> RelationExample:
        return parse_example(row, labelled=labelled)

    @classmethod
    @override
    def fit(cls, config: RelationConfig, examples: Sequence[RelationExample]) -> Self:
        """Both label sets in alphabetical order, and what depends on the data: the head, the units, nesting."""
        counts = Counter(relation.label for example in examples for relation in example.relations)
        if not counts:
            raise InputError("the training data has no relation", fix="give texts with 'entities' and 'relations'")
        entities = [sorted(example.entities or ()) for example in examples]
        if config.head == "auto":
            config = replace(config, head="markers" if all(len(spans) == 2 for spans in entities) else "joint")
        texts = [example.text for example in examples]
        offsets = [[(span.start, span.end) for span in spans] for spans in entities]
        if config.units == "auto":
            config = replace(config, units=choose_units(texts, offsets))
        if config.whole_words is None:
            config = replace(config, whole_words=are_mostly_whole(texts, offsets))
        if config.max_width is None:
            config = replace(config, max_width=widest_span(texts, offsets, config.units))  # type: ignore[arg-type]
        if config.nested is None:
            config = replace(config, nested=any(map(are_nested, entities)))
        labels = tuple(sorted(counts))
        fitted = FittedState(
            labels=labels,
            entity_labels=tuple(sorted({span.label for spans in entities for span in spans})),
            label_counts=tuple(counts[label] for label in labels),
            thresholds={_THRESHOLD: 0.5} if HEADS[config.head].has_threshold else {},
        )
        return cls(config, fitted)

    @classmethod
    @override
    def gold_labels(cls, example: RelationExample) -> Iterable[str]:
        yield from (relation.label for relation in example.relations)
        yield from (entity.label for entity in example.entities or ())

    # ---- encode

    @override
    def encode(self, examples: Sequence[RelationExample], windower: Windower, *, labelled: bool) -> list[Sample]:
        """A sample for each marked pair, or for each window with its spans."""
        for example in examples:
            if example.entities is None and not self._method.predicts_entities:
                fix = f"give 'entities', or train with head=joint, which predicts them; this is head={self.config.head}"
                raise example.row.error("'entities' is missing, and this model does not predict them", fix)
        return list(self._method.encode(examples, windower, labelled=labelled))

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
    def decode(
        self, index: int, example: RelationExample, samples: Sequence[Sample], outputs: Sequence[Any]
    ) -> RelationResult:
        """The entities, and the relations above the threshold."""
        result = self._decode_all(index, example, samples, outputs)
        threshold = self.fitted.thresholds.get(_THRESHOLD, 0.0)
        return replace(result, relations=tuple(r for r in result.relations if r.score > threshold))

    def _decode_all(
        self, index: int, example: RelationExample, samples: Sequence[Sample], outputs: Sequence[Any]
    ) -> RelationResult:
        """The entities, and every relation that some threshold would keep."""
        entities, relations = self._method.decode(example, samples, outputs)
        shared = common_fields(index, example.id, samples)
        return RelationResult(**shared, entities=entities, relations=relations, source=example.text)

    @override
    def empty_result(self, index: int, example: RelationExample) -> RelationResult:
        return RelationResult(**empty_fields(index, example.id), entities=(), relations=(), source=example.text)

    @override
    def tune(
        self,
        examples: Sequence[RelationExample],
        samples: Sequence[Sequence[Sample]],
        outputs: Sequence[Sequence[Any]],
    ) -> Self:
        """The threshold with the best micro F1, where relations are decided by one."""
        if not self._method.has_threshold:
            return self
        results = [
            self._decode_all(index, *example)
            for index, example in enumerate(zip(examples, samples, outputs, strict=True))
        ]
        gold = [example.gold for example in examples]
        threshold = best_threshold(gold, results, typed=self._method.predicts_entities)
        return type(self)(self.config, replace(self.fitted, thresholds={_THRESHOLD: threshold}))

    # ---- score

    @override
    def read_result(self, row: Row, index: int, example: RelationExample) -> RelationResult:
        return read_prediction(row, index, example)

    @override
    def score(self, examples: Sequence[RelationExample], results: Sequence[RelationResult]) -> Scores:
        """For given entities micro scores and SemEval's macro F1; for predicted ones strict scores, and entity F1."""
        gold, predicted = [example.gold for example in examples], [result.predicted for result in results]
        typed = self._method.predicts_entities
        metrics = score_joint_relations(gold, predicted) if typed else score_given_relations(gold, predicted)
        table = relation_label_table(gold, predicted, typed=typed)
        return Scores(task=self.name, count=len(examples), metrics=metrics, per_label=table)

    @override
    def score_counts(self, examples: Sequence[RelationExample], results: Sequence[RelationResult]) -> ScoreCounts:
        relations_of = by_boundaries_and_types if self._method.predicts_entities else by_boundaries
        gold = [relations_of(example.gold) for example in examples]
        return f1_counts(gold, [relations_of(result.predicted) for result in results])

    @override
    def mistake(self, example: RelationExample, result: RelationResult) -> Mistake | None:
        """Missed relations, and wrong ones weighed by their scores."""
        gold = set(by_boundaries(example.gold))
        scores = (relation.score for relation in result.relations)
        predicted = dict(zip(by_boundaries(result.predicted), scores, strict=True))
        badness = len(gold - predicted.keys()) + sum(
            score for relation, score in predicted.items() if relation not in gold
        )
        if not badness:
            return None
        gold_text, predicted_text = (
            _format(example.text, annotation) for annotation in (example.gold, result.predicted)
        )
        return Mistake(badness=badness, shown=result.to_html(), gold=gold_text, predicted=predicted_text)


def _format(text: str, annotation: EntityRelations) -> str:
    """`Anna Live_In Oslo, …`."""
    names = [text[start:end] for start, end, _ in annotation.entities]
    return ", ".join(f"{names[head]} {label} {names[tail]}" for head, tail, label in annotation.relations)
