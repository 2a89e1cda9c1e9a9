"""Settings of relation extraction."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from spanlab.config import AtLeast, AtMost
from spanlab.tasks.config import TaskConfig
from spanlab.tasks.spans.config import SpanConfig
from spanlab.training.config import TrainingConfig

MarkerKind = Literal["text", "type", "both"]
Direction = Literal["label", "marker"]


@dataclass(frozen=True, kw_only=True)
class RelationConfig(TaskConfig):
    """Relation extraction; learning rate, batch size and epochs are those of SpanBERT on TACRED."""

    head: Literal["auto", "markers", "pairs", "joint"] = "auto"
    """Marked pairs, pairs of given spans, or entities and relations; auto: markers if all texts have two entities."""
    markers: MarkerKind = "both"
    """head=markers: around the entity, instead of it with its type, or around it with its type."""
    direction: Direction = "label"
    """head=markers: the direction is part of the label, or given by markers of head and tail (two sequences a pair)."""
    units: Literal["auto", "word", "piece", "character"] = "auto"
    """The units of candidate entities; auto: words if the training data's entities begin and end at words."""
    whole_words: bool | None = None
    """Whether predicted entities begin and end at word boundaries only, where a script has them; raw spans otherwise.

    None: unless more than 1 % in the training data are not whole words, as in German compounds.
    """
    nested: bool | None = None
    """Whether predicted entities may lie inside each other; None: as in the training data."""
    max_width: Annotated[int, AtLeast(1), AtMost(1_000_000)] | None = None
    """The widest entity that can be predicted, in units; None: that of the training data."""
    span: SpanConfig = field(default_factory=lambda: SpanConfig(max_width=12))
    """The parts of the vectors of spans."""
    inner_width: Annotated[int, AtLeast(1), AtMost(65_536)] = 150
    """Width of the layers between vectors and labels."""
    training: TrainingConfig = field(
        # The layers of a task are initialised at random, and need a higher learning rate than the encoder.
        default_factory=lambda: TrainingConfig(lr=2e-5, batch_size=32, epochs=10.0, lr_factors={"heads": 10.0})
    )
