"""Settings of span representations: the parts of a span's vector."""

from dataclasses import dataclass
from typing import Annotated, Literal

from spanlab.config import AtLeast, AtMost, Bounded
from spanlab.errors import ConfigError

Ends = Literal["concatenated", "networks", "none"]
Inside = Literal["none", "mean", "max", "attention"]


@dataclass(frozen=True, kw_only=True)
class SpanConfig(Bounded):
    """The parts of a span's vector."""

    ends: Ends = "concatenated"
    """The first and the last token: their hidden states, through a network each, or nothing."""
    network_width: Annotated[int, AtLeast(1), AtMost(65_536)] = 150
    """The output size of the two networks."""
    inside: Inside = "attention"
    """The tokens of the span: their mean, their maximum, attention over them, or nothing."""
    width_features: Annotated[int, AtLeast(0), AtMost(65_536)] = 20
    """The size of the width embedding; 0: none."""
    max_width: Annotated[int, AtLeast(1), AtMost(10_000)] = 30
    """The number of width embeddings; wider spans share the last."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ends == "none" and self.inside == "none":
            raise ConfigError("a span vector has neither ends nor inside", fix="set one of `ends` and `inside`")
