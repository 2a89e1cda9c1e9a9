"""Settings of question answering: the published ones, and the learning rate of `head=span`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from spanlab.config import AtLeast, AtMost
from spanlab.tasks.config import TaskConfig, TaskDataConfig
from spanlab.tasks.spans.config import SpanConfig
from spanlab.training.config import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class QaConfig(TaskConfig):
    """Question answering; the defaults are those of SQuAD in SpanBERT's paper."""

    head: Literal["pointers", "span"] = "pointers"
    """Logits of where an answer begins and ends, or a score for every candidate span."""
    max_question: Annotated[int, AtLeast(1), AtMost(1_000_000)] = 64
    """Maximum tokens of a question; the rest is cut off, and the result is marked as truncated."""
    max_answer: Annotated[int, AtLeast(1), AtMost(1_000_000)] = 30
    """Maximum tokens of an answer."""
    whole_words: bool | None = None
    """Whether answers begin and end at word boundaries only, where a script has them; raw spans otherwise.

    None: unless more than 1 % in the training data are not whole words, as in German compounds.
    """
    n_best: Annotated[int, AtLeast(1), AtMost(10_000)] = 20
    """Answers kept from each window, and listed in the result."""
    language: Literal["auto", "en", "zh", "ko"] = "auto"
    """Rules by which answers are compared: SQuAD's, CMRC 2018's or KorQuAD's; auto: by the script of the questions."""
    span: SpanConfig = field(default_factory=lambda: SpanConfig(inside="none"))
    """The parts of the vectors of candidate spans."""
    inner_width: Annotated[int, AtLeast(1), AtMost(65_536)] = 150
    """Width of the layer between a span's vector and its score."""
    data: TaskDataConfig = field(default_factory=lambda: TaskDataConfig(length=512, stride=128))
    training: TrainingConfig = field(default_factory=lambda: TrainingConfig(lr=2e-5, batch_size=32, epochs=4.0))

    @classmethod
    def base(cls, changes: Mapping[str, Any]) -> "QaConfig":
        """The settings of the head that `changes` name."""
        return SPAN if changes.get("head") == "span" else cls()


# The layers between a span and its score are new: at the encoder's learning rate they would hardly move.
SPAN = QaConfig(head="span", training=replace(QaConfig().training, lr_factors={"heads": 10.0}))
