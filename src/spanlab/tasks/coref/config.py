"""Settings of coreference: the published ones, and small ones for a CPU."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from typing_extensions import override

from spanlab.config import Above, AtLeast, AtMost, Below, Bounded
from spanlab.tasks.config import TaskConfig, TaskDataConfig
from spanlab.tasks.spans.config import SpanConfig
from spanlab.training.config import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class CorefLayers(Bounded):
    """The sizes of the head, and how many mentions and antecedents it keeps."""

    inner_width: Annotated[int, AtLeast(1), AtMost(65_536)] = 3000
    """Width of the hidden layers of the networks that score mentions and pairs."""
    span: SpanConfig = field(default_factory=SpanConfig)
    """Candidate spans: their maximum width in word pieces, and the parts of their vectors."""
    antecedents: Annotated[int, AtLeast(1), AtMost(100_000)] = 50
    """Antecedents kept for each mention by the coarse scores."""
    rounds: Annotated[int, AtLeast(0), AtMost(100)] = 2
    """Rounds of higher-order refinement."""
    mention_ratio: Annotated[float, Above(0), AtMost(1)] = 0.4
    """Mentions kept, as a share of the tokens."""
    max_mentions: Annotated[int, AtLeast(1), AtMost(1_000_000)] = 3900
    """Mentions kept of a stretch of text, into which long documents are split; no antecedent is further back."""
    dropout: Annotated[float, AtLeast(0), Below(1)] = 0.3
    """On the inputs and hidden layers of its feed-forward networks."""
    property_width: Annotated[int, AtLeast(1), AtMost(65_536)] = 20
    """The size of the embeddings of a pair's properties."""
    distance: bool = True
    """Property: how many mentions lie between."""
    segment_distance: bool = True
    """Property: how many segments lie between."""
    spelling: bool = False
    """Property: whether two mentions are spelled alike, or end in the same token; not in the paper."""
    max_segments: Annotated[int, AtLeast(0), AtMost(10_000)] = 3
    """Segments of a document in training, drawn at random in every epoch; 0: all of them."""
    memory_gb: Annotated[float, Above(0)] = 4.0
    """Maximum memory of this head for one document in prediction."""

    @property
    def stretch(self) -> int:
        """Tokens that are pruned together."""
        return int(self.max_mentions / self.mention_ratio)

    @property
    def segment_distances(self) -> int:
        """The number of distances with an embedding: those that occur in training."""
        return max(2, self.max_segments or 16)

    def kept(self, tokens: int) -> int:
        """The largest number of mentions that are kept in `tokens` tokens."""
        return max(1, int(self.mention_ratio * tokens))


@dataclass(frozen=True, kw_only=True)
class CorefConfig(TaskConfig):
    """Coreference; the defaults are those of SpanBERT's paper."""

    coref: Literal["published", "small"] = "published"
    """The preset that all other settings override: the paper's, or small layers for a CPU."""
    layers: CorefLayers = field(default_factory=CorefLayers)
    units: Literal["auto", "word", "piece", "character"] = "auto"
    """The units of mentions; auto: words if all mentions of the training data are whole words, else characters."""
    whole_words: bool | None = None
    """Whether mentions begin and end at word boundaries only, where a script has them; raw spans otherwise.

    None: unless more than 1 % in the training data are not whole words, as in German compounds.
    """
    segments: Literal["independent", "overlap"] = "independent"
    """Whether each token is in one segment, or in two overlapping ones, whose hidden states are combined by a gate."""
    singletons: bool | None = None
    """Whether clusters of one mention are predicted; None: if the training data has any."""
    speakers: bool | None = None
    """Property of a pair: whether the speaker is the same; None: if the training data has speakers."""
    genres: bool | None = None
    """Property of a pair: the genre; None: if the training data has genres."""
    pronoun_reach: Annotated[int, AtLeast(0), AtMost(1_000_000)] = 0
    """How many tokens back a pronoun may find its antecedent; 0: any number, as published. Without a limit, the same
    pronouns of a book become one person."""
    mention_loss: Annotated[float, AtLeast(0)] = 1.0
    """The weight of the loss of mention scores, which needs singletons in the training data."""
    data: TaskDataConfig = field(default_factory=lambda: TaskDataConfig(length=384))
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(lr=1e-5, lr_factors={"heads": 20.0}, batch_size=1, epochs=20.0)
    )

    @property
    @override
    def published_width(self) -> int:
        return 384 if self.coref == "small" else super().published_width

    @classmethod
    def base(cls, changes: Mapping[str, Any]) -> "CorefConfig":
        """The preset that `changes` name."""
        return SMALL if changes.get("coref") == "small" else cls()


SMALL = CorefConfig(
    coref="small",
    pronoun_reach=800,
    layers=CorefLayers(
        inner_width=256,
        span=SpanConfig(max_width=15),
        antecedents=20,
        rounds=1,
        mention_ratio=0.25,
        dropout=0.2,
        spelling=True,
        max_segments=5,
    ),
    data=TaskDataConfig(length=256),
    training=TrainingConfig(lr=7e-5, lr_factors={"heads": 8.0}, batch_size=1, epochs=15.0),
)
