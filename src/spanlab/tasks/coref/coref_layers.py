"""The sizes of the coreference head, and how many mentions and antecedents it looks at."""

from dataclasses import dataclass, field

from spanlab.errors import ConfigError
from spanlab.tasks.spans.representation import SpanConfig


@dataclass(frozen=True, kw_only=True)
class CorefLayers:
    """The sizes of the head and how many mentions and antecedents it looks at."""

    inner_width: int = 3000
    """Of the networks that score mentions and pairs."""
    span: SpanConfig = field(default_factory=SpanConfig)
    """How wide candidates are, in pieces, and what their vectors are made of."""
    antecedents: int = 50
    """Kept for each mention by the coarse scores."""
    rounds: int = 2
    """Of higher-order refinement."""
    mention_ratio: float = 0.4
    """Kept mentions for each token."""
    max_mentions: int = 3900
    """Kept of a stretch of text: longer documents are pruned stretch by stretch. Antecedents lie no further back."""
    dropout: float = 0.3
    property_width: int = 20
    """The size of the vectors that tell properties of a pair."""
    distance: bool = True
    """Whether scores know how many mentions lie between."""
    segment_distance: bool = True
    """Whether they know how many segments do."""
    spelling: bool = False
    """Whether they know if two mentions are written the same, or end in the same token; not in the paper."""
    max_segments: int = 3
    """Segments of a document in training, drawn anew in every epoch; 0: all of them."""
    memory_gb: float = 4.0
    """The most memory that this head takes for one document in prediction."""

    def __post_init__(self) -> None:
        for name in ("inner_width", "antecedents", "max_mentions", "property_width"):
            if getattr(self, name) < 1:
                raise ConfigError(f"'{name}' is {getattr(self, name)}; it must be at least 1")
        for name in ("rounds", "max_segments"):
            if getattr(self, name) < 0:
                raise ConfigError(f"'{name}' is {getattr(self, name)}; it must not be negative")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"'dropout' is {self.dropout}; it must be at least 0 and below 1")
        if not 0 < self.mention_ratio <= 1 or self.memory_gb <= 0:
            raise ConfigError("'mention_ratio' must lie above 0 and not above 1, and 'memory_gb' above 0")

    @property
    def stretch(self) -> int:
        """Tokens that are pruned together."""
        return int(self.max_mentions / self.mention_ratio)

    @property
    def segment_distances(self) -> int:
        """How many are told apart: those that training shows."""
        return max(2, self.max_segments or 16)

    def kept(self, tokens: int) -> int:
        """How many mentions of so many tokens are kept at most."""
        return max(1, int(self.mention_ratio * tokens))
