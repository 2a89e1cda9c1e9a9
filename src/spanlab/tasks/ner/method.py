"""The interface of the entity recognition heads, from the arrays of a window to the entities of a text.

A long text is split into windows. Each unit, and each candidate span, is scored in the one window where it has most
context, in training as in prediction, so decoding never has to merge two scores of the same unit.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from spanlab.arrays import Flags
from spanlab.tasks.base import FittedState
from spanlab.tasks.host_head import HostHead
from spanlab.tasks.ner.config import NerConfig
from spanlab.tasks.ner.data import NerExample
from spanlab.tasks.sample import Arrays, Sample
from spanlab.tasks.spans.units import GoldUnits, LabelUnits
from spanlab.tasks.windows import InputWindow

if TYPE_CHECKING:
    from spanlab.encoder import Encoder
    from spanlab.tasks.head import Head

ScoredSpan = tuple[int, int, int, float]
"""Start and end in characters, the index of the label, and the score of a predicted entity."""


class EntityMethod(ABC):
    """Features, layers and decoding of one head; a row of `HEADS` in `task.py`."""

    represents_overlap: ClassVar[bool]
    """Whether two entities may share a character."""

    def __init__(self, config: NerConfig, fitted: FittedState) -> None:
        self.config, self.fitted = config, fitted

    @classmethod
    @abstractmethod
    def output_names(cls, entity_labels: Sequence[str]) -> tuple[str, ...]:
        """The names of the head's logits, in their order."""

    @classmethod
    @abstractmethod
    def count_outputs(
        cls, config: NerConfig, entity_labels: Sequence[str], examples: Sequence[NerExample]
    ) -> tuple[int, ...]:
        """How often each output is the gold one in the training data, counted without a tokenizer."""

    @property
    def max_width(self) -> int | None:
        """The widest entity that can be predicted, in units; None: any."""
        return None

    @abstractmethod
    def arrays(
        self, units: LabelUnits, window: InputWindow, is_best_N: Flags, gold: GoldUnits | None
    ) -> tuple[Arrays, Arrays]:
        """Features and targets of a window.

        Args:
            units: Of the whole text.
            window: The window.
            is_best_N: Whether no other window gives a token of the text more context.
            gold: The entities; None: without targets.
        """

    @abstractmethod
    def layers(self, encoder: "Encoder") -> "Head":
        """Newly initialised layers."""

    @property
    @abstractmethod
    def host_head(self) -> HostHead:
        """What these layers do on the host."""

    @abstractmethod
    def decode(self, samples: Sequence[Sample], outputs: Sequence[Any]) -> Iterator[ScoredSpan]:
        """The entities of a text from the outputs of all its windows."""
