"""What sits on an encoder for one task, as the frame sees it.

Shapes: N tokens, B sequences, S samples, D width.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

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


class Head(Protocol):
    """The layers of one task, an `nn.Module`; `forward` is shared by training and prediction.

    Losses are sums over terms, and the terms of a batch are counted before the forward pass: whoever trains divides by
    the terms of the whole step, so neither accumulation nor several processes change anything.
    """

    @property
    def standard(self) -> tuple[str, nn.Module] | None:
        """The layer that transformers has a class for, if it is all there is here: `sequence`, `token` or `answer`.

        A model of this one task is then saved under transformers' names (see `encoder.task_heads`).
        """

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


Parts = Mapping[str, ObjectiveLoss]
