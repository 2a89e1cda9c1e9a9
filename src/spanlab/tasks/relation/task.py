"""Relations: what holds between two entities of a text, given or found.

`head=markers` takes given entities and encodes the text once for each pair, with the pair marked: sentence
classification as for SemEval-2010 task 8 and TACRED; transformers has a class for such a model. `head=pairs` takes
given entities too, encodes the text once, and scores all pairs by their span vectors. `head=joint` finds the entities
as well, with the same span vectors, from the text alone.

Shapes: S spans, P pairs, R relations.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

from typing_extensions import override

from spanlab.encoder import Encoder
from spanlab.errors import ConfigError, InputError
from spanlab.metrics.relations import (
    EntityRelations,
    by_boundaries,
    relation_label_table,
    score_given_relations,
    score_joint_relations,
)
from spanlab.tasks.base import FittedState, Task
from spanlab.tasks.config import TaskConfig
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.relation.data import RelationExample, example_problems, read_example
from spanlab.tasks.relation.decode import PairFinds, best_threshold, found_together, given_entities, pairs_of_given
from spanlab.tasks.relation.heads import RelationSpanHead
from spanlab.tasks.relation.marked_pairs import ROLES, Direction, PairClasses, decode_pairs, mark_pairs, pair_targets
from spanlab.tasks.relation.markers import EntityMarkers, MarkerKind, known_label
from spanlab.tasks.relation.result import RelationResult, read_relation_result
from spanlab.tasks.relation.span_pairs import GoldRelations, candidate_spans, given_spans
from spanlab.tasks.result import Mistake, Scores, about
from spanlab.tasks.sample import Sample
from spanlab.tasks.sequence_head import SequenceTaskHead
from spanlab.tasks.spans.labelled import are_nested
from spanlab.tasks.spans.pruning import Conflict
from spanlab.tasks.spans.representation import SpanConfig
from spanlab.tasks.spans.units import choose_units, encode_units, find_gold, widest_span
from spanlab.tasks.validation import Problem
from spanlab.tasks.windows import Windower
from spanlab.training.config import TrainingConfig

_THRESHOLD = "relation"

# ---- Config


@dataclass(frozen=True, kw_only=True)
class RelationConfig(TaskConfig):
    """Relation extraction; rate, batch and epochs are those of SpanBERT on TACRED."""

    head: Literal["auto", "markers", "pairs", "joint"] = "auto"
    """Marked pairs, pairs of given spans, or entities and relations; auto: markers if all texts have two entities."""
    markers: MarkerKind = "both"
    """Of `head=markers`: around the text, in place of it with the entity's type, or around it with its type."""
    direction: Direction = "label"
    """Of `head=markers`: told by the label of a pair, or by markers of head and tail, two sequences a pair."""
    units: Literal["auto", "word", "piece", "character"] = "auto"
    """What entities are found in; auto: words if the training data's entities begin and end at words."""
    nested: bool | None = None
    """Whether entities found may lie inside each other; None: told from the training data."""
    max_width: int | None = None
    """The widest entity that can be found, in units; None: that of the training data."""
    span: SpanConfig = field(default_factory=lambda: SpanConfig(max_width=12))
    """What the vectors of spans are made of."""
    inner_width: int = 150
    """Of the layers between vectors and labels."""
    training: TrainingConfig = field(
        # The layers of a task begin at random, and learn faster than the encoder.
        default_factory=lambda: TrainingConfig(lr=2e-5, batch_size=32, epochs=10.0, lr_factors={"heads": 10.0})
    )

    def __post_init__(self) -> None:
        if self.inner_width < 1:
            raise ConfigError(f"'inner_width' is {self.inner_width}; it must be at least 1")
        if self.max_width is not None and self.max_width < 1:
            raise ConfigError(f"'max_width' is {self.max_width}; it must be at least 1")


# ---- read


class Relations(Task[RelationExample, RelationResult]):
    """The task `relation`."""

    name: ClassVar[str] = "relation"
    Config: ClassVar[type[TaskConfig]] = RelationConfig
    shape: ClassVar[FileShape] = FileShape(fields={"text": ("sentence",)}, required=("text",), labels="relations")

    config: RelationConfig

    def __init__(self, config: RelationConfig, fitted: FittedState) -> None:
        self.config, self.fitted = config, fitted
        self._classes = PairClasses(direction=config.direction, labels=fitted.labels)

    @classmethod
    @override
    def problems(cls, row: Row, *, labelled: bool = True) -> Iterator[Problem]:
        return example_problems(row, labelled=labelled)

    @classmethod
    @override
    def parse(cls, row: Row, *, labelled: bool) -> RelationExample:
        return read_example(row, labelled=labelled)

    @classmethod
    @override
    def fit(cls, config: RelationConfig, examples: Sequence[RelationExample]) -> Self:
        """Both sets of labels in alphabetical order, and what the data decide: the head, the units, nesting."""
        counts = Counter(relation.label for example in examples for relation in example.relations)
        if not counts:
            raise InputError("the training data has no relation", fix="give texts with 'entities' and 'relations'")
        spans = [sorted(example.entities or ()) for example in examples]
        if config.head == "auto":
            config = replace(config, head="markers" if all(len(each) == 2 for each in spans) else "joint")
        texts = [example.text for example in examples]
        places = [[(span.start, span.end) for span in each] for each in spans]
        if config.units == "auto":
            config = replace(config, units=choose_units(texts, places))
        if config.max_width is None:
            config = replace(config, max_width=widest_span(texts, places, config.units))  # type: ignore[arg-type]
        if config.nested is None:
            config = replace(config, nested=any(map(are_nested, spans)))
        labels = tuple(sorted(counts))
        fitted = FittedState(
            labels=labels,
            entity_labels=tuple(sorted({span.label for each in spans for span in each})),
            label_counts=tuple(counts[label] for label in labels),
            thresholds={} if config.head == "markers" else {_THRESHOLD: 0.5},
        )
        return cls(config, fitted)

    @classmethod
    @override
    def gold_labels(cls, example: RelationExample) -> Iterable[str]:
        """The labels of its relations and of its entities."""
        yield from (relation.label for relation in example.relations)
        yield from (entity.label for entity in example.entities or ())

    # ---- encode

    @override
    def encode(self, examples: Sequence[RelationExample], windower: Windower, *, labelled: bool) -> list[Sample]:
        """A sample for each marked pair, or for each window with its spans."""
        if self.config.head == "joint":
            return list(self._encode_texts(examples, windower, labelled=labelled))
        for example in examples:
            if example.entities is None:
                fix = f"give 'entities', or train with head=joint, which finds them; this is head={self.config.head}"
                raise example.row.error("there is no 'entities', among which relations are looked for", fix)
        encode = self._encode_marked if self.config.head == "markers" else self._encode_given
        return list(encode(examples, windower, labelled=labelled))

    @property
    def _refuse(self) -> bool:
        return bool(self.config.data.bad_rows == "refuse")

    def _encode_marked(
        self, examples: Sequence[RelationExample], windower: Windower, *, labelled: bool
    ) -> Iterator[Sample]:
        config = self.config
        markers = EntityMarkers(windower.tokenizer, config.markers, ROLES[config.direction], self.fitted.entity_labels)
        all_tokens = windower.tokenize([example.text for example in examples])
        for number, (example, tokens) in enumerate(zip(examples, all_tokens, strict=True)):
            targets = pair_targets(example, self._classes, refuse=self._refuse) if labelled else None
            yield from mark_pairs(number, example, tokens, windower, markers, self._classes, targets)

    def _encode_given(
        self, examples: Sequence[RelationExample], windower: Windower, *, labelled: bool
    ) -> Iterator[Sample]:
        types = {label: place for place, label in enumerate(self.fitted.entity_labels, 1)}
        all_tokens = windower.tokenize([example.text for example in examples])
        for number, (example, tokens) in enumerate(zip(examples, all_tokens, strict=True)):
            gold = GoldRelations(entities=None, relations=example.relations, labels=self.fitted.labels)
            own = [types[known_label(entity.label, types)] for entity in example.entities or ()]
            yield from given_spans(number, example, tokens, windower, own, gold if labelled else None)

    def _encode_texts(
        self, examples: Sequence[RelationExample], windower: Windower, *, labelled: bool
    ) -> Iterator[Sample]:
        units, width = self.config.units, self.config.max_width
        assert units != "auto", "training decides what entities are found in"
        assert width is not None, "training decides how wide entities are"
        all_units = encode_units(windower.tokenizer, [example.text for example in examples], units)
        for number, (example, own) in enumerate(zip(examples, all_units, strict=True)):
            gold = None
            if labelled:
                spans, names = example.entities or (), self.fitted.entity_labels
                entities = find_gold(
                    spans, example.row, own, names, max_width=width, refuse=self._refuse, setting="max_width"
                )
                gold = GoldRelations(entities=entities, relations=example.relations, labels=self.fitted.labels)
            yield from candidate_spans(number, own, windower, width, gold)

    # ---- Head

    @property
    def _conflict(self) -> Conflict:
        """What two entities found may not do."""
        return "crossing" if self.config.nested else "overlapping"

    @override
    def head(self, encoder: Encoder) -> SequenceTaskHead | RelationSpanHead:
        if self.config.head == "markers":
            return SequenceTaskHead(encoder, "label", self._classes.names)
        return RelationSpanHead(
            encoder.config,
            self.config.span,
            labels=len(self.fitted.entity_labels) + 1,
            relations=len(self.fitted.labels),
            inner_width=self.config.inner_width,
            finds=self.config.head == "joint",
            conflict=self._conflict,
        )

    # ---- decode

    @override
    def decode(
        self, index: int, example: RelationExample, samples: Sequence[Sample], outputs: Sequence[Any]
    ) -> RelationResult:
        """The relations of all pairs, and the entities they are among."""
        finds = self._find(example, samples, outputs)
        least = self.fitted.thresholds.get(_THRESHOLD, 0.0)
        relations = tuple(relation for relation in finds.relations if relation.score > least)
        shared = about(index, example.id, samples)
        return RelationResult(**shared, entities=finds.entities, relations=relations, source=example.text)

    def _find(self, example: RelationExample, samples: Sequence[Sample], outputs: Sequence[Any]) -> PairFinds:
        """Entities, and every relation that some threshold would let through."""
        if self.config.head == "joint":
            return found_together(example.text, samples, outputs, self.fitted, self._conflict)
        entities = given_entities(example)
        if self.config.head == "pairs":
            return PairFinds(entities=entities, relations=pairs_of_given(samples, outputs, self.fitted.labels))
        return PairFinds(entities=entities, relations=tuple(decode_pairs(samples, outputs, self._classes)))

    @override
    def tune(
        self,
        examples: Sequence[RelationExample],
        samples: Sequence[Sequence[Sample]],
        outputs: Sequence[Sequence[Any]],
    ) -> "Relations":
        """Where each relation is decided by itself: the probability above which it holds, by micro F1 on dev."""
        if self.config.head == "markers":
            return self
        finds = [self._find(*each) for each in zip(examples, samples, outputs, strict=True)]
        best = best_threshold([example.gold for example in examples], finds, typed=self.config.head == "joint")
        return Relations(self.config, replace(self.fitted, thresholds={_THRESHOLD: best}))

    # ---- score

    @override
    def read_result(self, row: Row, index: int, example: RelationExample) -> RelationResult:
        """A prediction from a file; without entities of its own, its relations are among those of the example."""
        return read_relation_result(row, index, example)

    @override
    def score(self, examples: Sequence[RelationExample], results: Sequence[RelationResult]) -> Scores:
        """Of given entities micro scores and SemEval's macro F1; of found ones strict scores, and the entities'."""
        gold, predicted = [example.gold for example in examples], [result.told for result in results]
        joint = self.config.head == "joint"
        metrics = score_joint_relations(gold, predicted) if joint else score_given_relations(gold, predicted)
        table = relation_label_table(gold, predicted, typed=joint)
        return Scores(task=self.name, count=len(examples), metrics=metrics, per_label=table)

    @override
    def mistake(self, example: RelationExample, result: RelationResult) -> Mistake | None:
        """Relations that were missed, and wrong ones, which weigh as much as the model was sure of them."""
        gold = set(by_boundaries(example.gold))
        scores = (one.score for one in result.relations)
        found = dict(zip(by_boundaries(result.told), scores, strict=True))
        badness = len(gold - found.keys()) + sum(score for one, score in found.items() if one not in gold)
        if not badness:
            return None
        wanted, given = (_listed(example.text, told) for told in (example.gold, result.told))
        return Mistake(badness=badness, shown=result.to_html(), gold=wanted, predicted=given)


def _listed(text: str, told: EntityRelations) -> str:
    """`Anna Live_In Oslo, …`."""
    names = [text[start:end] for start, end, _ in told.entities]
    return ", ".join(f"{names[head]} {label} {names[tail]}" for head, tail, label in told.relations)
