"""What sits on an encoder for one task, as the frame sees it.

Shapes: N tokens, B sequences, S samples, D width.
"""

from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from torch import Tensor, nn

from spanlab.encoder import Encoder
from spanlab.objectives.objective import ObjectiveLoss
from spanlab.tasks.sample import SampleBatch, TensorBatch


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """What the encoder left of a batch of samples."""

    hidden_ND: Tensor
    """Of all sequences, end to end; `batch.lengths_B` divides them."""
    pooled_BD: Tensor | None
    """None without a pooler."""
    batch: TensorBatch
    word_table_VE: Tensor | None = None
    """What a causal encoder predicts the next token with; None: it looks at what follows."""


@dataclass(frozen=True, kw_only=True)
class StandardHead:
    """A layer of `encoder.task_heads`, or the causal head: a model of one task is saved under transformers' names."""

    kind: Literal["sequence", "token", "answer", "clm"]
    layer: nn.Module
    labels: tuple[str, ...] = ()
    """What its outputs are called in transformers' config; empty for a score, an answer or tokens."""


class Head(Protocol):
    """The layers of one task, an `nn.Module`; `forward` is shared by training and prediction.

    Losses are sums over terms, and the terms of a batch are counted before the forward pass: whoever trains divides by
    the terms of the whole step, so neither accumulation nor several processes change anything.
    """

    @property
    def standard(self) -> "StandardHead | None":
        """The layer that transformers has a class for, if it is all there is here."""

    @property
    def uses_pooler(self) -> bool:
        """Whether `Encoded.pooled_BD` is looked at; where no head does, the pooler does not learn."""

    def count(self, batch: SampleBatch) -> int:
        """How many terms the loss of this batch has."""

    def __call__(self, encoded: Encoded) -> Any:  # noqa: ANN401 (each head's own tensors)
        """Logits or whatever else `loss` and `split` take."""

    def loss(self, logits: Any, batch: TensorBatch) -> ObjectiveLoss:  # noqa: ANN401
        """The sum over the batch's terms; its one tally is "correct"."""

    def metrics(self, loss: ObjectiveLoss) -> dict[str, float]:
        """What to report of added-up losses; empty if there was no term."""

    def split(self, logits: Any, batch: TensorBatch) -> list[Any]:  # noqa: ANN401
        """The output of each sample, in order, as numpy arrays on the host: what the task decodes."""


@runtime_checkable
class Answering(Protocol):
    """A head that runs the encoder itself to answer, because it does so again and again."""

    def answer(self, encoder: Encoder, batch: TensorBatch) -> Any:  # noqa: ANN401
        """What `split` takes, in place of the head's own call."""
