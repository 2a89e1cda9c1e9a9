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
    """Tokens of a question; the rest is cut off, and the result says so."""
    max_answer: Annotated[int, AtLeast(1)] = 30
    """Tokens of an answer."""
    n_best: Annotated[int, AtLeast(1)] = 20
    """Answers kept of each window, and listed."""
    language: Literal["auto", "en", "zh", "ko"] = "auto"
    """Whose rules compare answers: SQuAD's, CMRC 2018's or KorQuAD's; auto goes by the script of the questions."""
    span: SpanConfig = field(default_factory=lambda: SpanConfig(inside="none"))
    """What the vectors of candidate spans are made of."""
    inner_width: Annotated[int, AtLeast(1)] = 150
    """Of the layer between a span's vector and its score."""
    data: TaskDataConfig = field(default_factory=lambda: TaskDataConfig(length=512, stride=128))
    training: TrainingConfig = field(default_factory=lambda: TrainingConfig(lr=2e-5, batch_size=32, epochs=4.0))
