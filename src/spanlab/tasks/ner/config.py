"""Settings of entity recognition: the published ones of `head=tag`, and those of `head=span`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from spanlab.config import AtLeast, AtMost, Below
from spanlab.tasks.config import TaskConfig
from spanlab.tasks.spans.config import SpanConfig
from spanlab.training.config import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class NerConfig(TaskConfig):
    """Entity recognition; the training defaults of `head=tag` are those of BERT's paper."""

    head: Literal["tag", "span"] = "tag"
    """A tag for every unit, or a label for every candidate span, which lets entities nest."""
    units: Literal["auto", "word", "piece", "character"] = "auto"
    """The labelled units; auto: words if all entities of the training data are whole words, else characters."""
    whole_words: bool | None = None
    """Whether entities begin and end at word boundaries only, where a script has them; raw spans otherwise.

    None: unless more than 1 % in the training data are not whole words, as in German compounds.
    """
    nested: bool | None = None
    """Whether entities of `head=span` may lie inside each other; None: as in the training data."""
    span: SpanConfig = field(default_factory=lambda: SpanConfig(max_width=12))
    """Candidate spans: their maximum width in units, and the parts of their vectors."""
    inner_width: Annotated[int, AtLeast(1), AtMost(65_536)] = 150
    """Width of the layer between a span's vector and its label."""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: rare tags, or labels of candidate spans, weigh more, in inverse proportion to their frequency."""
    label_smoothing: Annotated[float, AtLeast(0), Below(1)] = 0.0
    """The share of each target's probability that is spread over all labels."""
    training: TrainingConfig = field(default_factory=lambda: TrainingConfig(lr=5e-5, batch_size=32, epochs=3.0))

    @classmethod
    def base(cls, changes: Mapping[str, Any]) -> "NerConfig":
        """The settings of the head that `changes` name."""
        return SPAN if changes.get("head") == "span" else cls()


# The layers between a span and its label are new, several, and see few entities in a step: at the rate, the batch and
# the epochs of a published encoder with one linear layer they would still predict nothing when training ends.
SPAN = NerConfig(head="span", training=TrainingConfig(lr=5e-5, lr_factors={"heads": 10.0}, batch_size=16, epochs=10.0))
