"""Settings of extractive summarisation, and the limit of a summary's length."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from spanlab.config import AtLeast, AtMost
from spanlab.errors import ConfigError
from spanlab.tasks.config import TaskConfig
from spanlab.training.config import TrainingConfig

LimitUnit = Literal["sentences", "words", "ratio"]


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The maximum length of a summary."""

    amount: float
    unit: LimitUnit = "sentences"
    """ratio: a share of the text's words."""

    def __post_init__(self) -> None:
        if not self.amount > 0:
            raise ConfigError(f"'limit' is {self.amount:g}; it must be above 0")
        if self.unit == "ratio" and self.amount > 1:
            raise ConfigError(f"'limit' is {self.amount:g}; a ratio is at most 1")

    def budget(self, words: Sequence[int]) -> "Budget":
        """The budget for a text; `words`: the number of words of each sentence. At least the shortest sentence fits."""
        costs = [1] * len(words) if self.unit == "sentences" else words
        total = self.amount * sum(words) if self.unit == "ratio" else self.amount
        return Budget(costs=costs, total=max(total, min(costs)))


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The cost of each sentence of a text, and the maximum for all chosen ones together."""

    costs: Sequence[int]
    total: float

    def allows(self, chosen: Sequence[int], index: int) -> bool:
        """Whether sentence `index` fits in addition to the chosen ones."""
        return sum(self.costs[sentence] for sentence in (*chosen, index)) <= self.total + 1e-9


@dataclass(frozen=True, kw_only=True)
class SummarisationConfig(TaskConfig):
    """Extractive summarisation; layers and learning rates are those of BERTSUM."""

    limit: float | None = None
    """Maximum length of a summary; None: the mean number of sentences of the training summaries."""
    limit_by: LimitUnit = "sentences"
    """The unit of `limit`: sentences, words, or a share of the text's words."""
    block_trigrams: bool = True
    """Whether a sentence is skipped that shares three words in a row with a better one."""
    sentence_vector: Literal["mean", "marker"] = "mean"
    """The vector of a sentence: the mean of its tokens, or a [CLS] before it, as in BERTSUM."""
    inter_layers: Annotated[int, AtLeast(0), AtMost(100)] = 2
    """Transformer layers in which the sentences of a document attend to each other; 0: each is scored alone."""
    language: Literal["auto", "en", "zh", "ko"] = "auto"
    """How ROUGE splits words; auto goes by the script of the texts."""
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(lr=5e-5, batch_size=32, epochs=4.0, lr_factors={"heads": 10.0})
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.limit is not None:
            Limit(amount=self.limit, unit=self.limit_by)
        elif self.limit_by != "sentences":
            raise ConfigError(f"'limit_by' is {self.limit_by}, but 'limit' is not set", fix="set limit as well")
