"""The sizes of the coreference head, and how many mentions and antecedents it looks at."""

from dataclasses import dataclass, field

from spanlab.errors import ConfigError, InputError
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


_NUMBER = 4  # bytes of a number in single precision
_PAIR = 64  # bytes that a pair takes in coarse scores: the score, its distance, its spelling, what is allowed
_MOST_CANDIDATES, _MOST_ROWS = 65536, 1024  # larger blocks gain nothing and spoil the caches
_GB = 1e9
_WORKING_SHARE = 0.5  # of what is left: the other half is for copies that torch makes


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What a document and a head's settings come to."""

    tokens: int
    candidates: int
    mentions: int
    """Kept at most."""
    width: int
    """Of hidden states."""
    features: int
    """Of a mention's vector."""
    inner_width: int
    antecedents: int
    reach: int
    max_width: int

    @property
    def fixed_bytes(self) -> int:
        """Hidden states, candidates, and eight sets of vectors: what a round of refinement holds at a time."""
        hidden = 3 * self.tokens * self.width
        candidates = 16 * self.candidates
        vectors = 8 * self.mentions * self.features + 16 * self.mentions * self.antecedents
        return _NUMBER * (hidden + candidates + vectors)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """How many rows of each large matrix are computed at a time."""

    candidates: int
    coarse: int
    fine: int


def plan_rows(sizes: Sizes, budget_gb: float) -> Rows:
    """Rows that stay within the budget; an error where not even one would."""
    left = budget_gb * _GB - sizes.fixed_bytes
    a_candidate = _NUMBER * (6 * sizes.inner_width + 4 * sizes.max_width)
    a_coarse = _PAIR * min(sizes.reach + _MOST_ROWS, sizes.mentions)
    a_fine = _NUMBER * sizes.antecedents * (3 * sizes.features + 5 * sizes.inner_width)
    rows = [int(_WORKING_SHARE * left / each) for each in (a_candidate, a_coarse, a_fine)]
    if min(rows) < 1:
        needed = (sizes.fixed_bytes + max(a_candidate, a_coarse, a_fine) / _WORKING_SHARE) / _GB
        cause = f"a document of {sizes.tokens:,} tokens needs {needed:.1f} GB, and memory_gb is {budget_gb:g}"
        raise InputError(cause, fix="cut the document, or give a larger memory_gb or a smaller mention_ratio")
    return Rows(
        candidates=min(rows[0], _MOST_CANDIDATES), coarse=min(rows[1], _MOST_ROWS), fine=min(rows[2], _MOST_ROWS)
    )
