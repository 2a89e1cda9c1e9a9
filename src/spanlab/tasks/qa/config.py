"""Settings of question answering."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from spanlab.config import AtLeast
from spanlab.tasks.config import TaskConfig, TaskDataConfig
from spanlab.tasks.spans.representation import SpanConfig
from spanlab.training.config import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class QaConfig(TaskConfig):
    """Question answering; the defaults are those of SQuAD in SpanBERT's paper."""

    head: Literal["pointers", "span"] = "pointers"
    """Logits of where an answer begins and ends, or a score for every candidate span."""
    max_question: Annotated[int, AtLeast(1)] = 64
    """Maximum tokens of a question; the rest is cut off, and the result is marked as truncated."""
    max_answer: Annotated[int, AtLeast(1)] = 30
    """Maximum tokens of an answer."""
    n_best: Annotated[int, AtLeast(1)] = 20
    """Answers kept from each window, and listed in the result."""
    language: Literal["auto", "en", "zh", "ko"] = "auto"
    """Rules by which answers are compared: SQuAD's, CMRC 2018's or KorQuAD's; auto: by the script of the questions."""
    span: SpanConfig = field(default_factory=lambda: SpanConfig(inside="none"))
    """The parts of the vectors of candidate spans."""
    inner_width: Annotated[int, AtLeast(1)] = 150
    """Width of the layer between a span's vector and its score."""
    data: TaskDataConfig = field(default_factory=lambda: TaskDataConfig(length=512, stride=128))
    training: TrainingConfig = field(default_factory=lambda: TrainingConfig(lr=2e-5, batch_size=32, epochs=4.0))
