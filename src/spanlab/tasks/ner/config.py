"""Settings of entity recognition."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from spanlab.config import AtLeast, Below
from spanlab.tasks.config import TaskConfig
from spanlab.tasks.spans.representation import SpanConfig
from spanlab.training.config import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class NerConfig(TaskConfig):
    """Entity recognition; the training defaults are those of BERT's paper."""

    head: Literal["tag", "span"] = "tag"
    """A tag for every unit, or a label for every candidate span, which lets entities nest."""
    units: Literal["auto", "word", "piece", "character"] = "auto"
    """The labelled units; auto: words if all entities of the training data are whole words, else characters."""
    nested: bool | None = None
    """Whether entities of `head=span` may lie inside each other; None: as in the training data."""
    span: SpanConfig = field(default_factory=lambda: SpanConfig(max_width=12))
    """Candidate spans: their maximum width in units, and the parts of their vectors."""
    inner_width: Annotated[int, AtLeast(1)] = 150
    """Width of the layer between a span's vector and its label."""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: rare tags, or labels of candidate spans, weigh more, in inverse proportion to their frequency."""
    label_smoothing: Annotated[float, AtLeast(0), Below(1)] = 0.0
    training: TrainingConfig = field(default_factory=lambda: TrainingConfig(lr=5e-5, batch_size=32, epochs=3.0))
