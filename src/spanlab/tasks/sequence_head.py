"""A whole sequence to a label, a set of labels, or a score: what classification and similarity have in common.

Shapes: S samples, L labels.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from spanlab.encoder import Encoder, SequenceHead
from spanlab.objectives.objective import ObjectiveLoss, loss_and_accuracy
from spanlab.tasks.head import Encoded, StandardHead
from spanlab.tasks.losses import label_set_loss, one_label_loss, squared_loss
from spanlab.tasks.pooling import add_pooler, pools_last_token, summary_tokens
from spanlab.tasks.sample import SampleBatch, TensorBatch


class SequenceTaskHead(nn.Module):
    """transformers' sequence head with a loss; a sample is one sequence."""

    weight_L: Tensor | None

    def __init__(
        self,
        encoder: Encoder,
        predicts: Literal["label", "labels", "score"],
        labels: tuple[str, ...] = (),
        *,
        smoothing: float = 0.0,
        weight_L: Tensor | None = None,
    ) -> None:
        """`predicts` is also the name of the target; a score has no `labels`."""
        super().__init__()
        add_pooler(encoder)
        self.layer = SequenceHead(encoder.config, len(labels) or 1)
        self.predicts, self.labels, self.smoothing = predicts, labels, smoothing
        self.last = pools_last_token(encoder.config)
        self.register_buffer("weight_L", weight_L, persistent=False)

    @property
    def standard(self) -> StandardHead:
        """All of its weights are the sequence head's."""
        return StandardHead(kind="sequence", layer=self.layer, labels=self.labels)

    @property
    def uses_pooler(self) -> bool:
        """Where the family has one."""
        return self.layer.on_pooled

    def count(self, batch: SampleBatch) -> int:
        """One term a sample."""
        return len(batch.samples)

    def forward(self, encoded: Encoded) -> Tensor:
        """(S, L) logits, or (S, 1) scores."""
        return self.layer(summary_tokens(encoded, last=self.last), encoded.pooled_BD)  # type: ignore[no-any-return]

    def loss(self, logits_SL: Tensor, batch: TensorBatch) -> ObjectiveLoss:
        """Cross-entropy of a label or of a set of them, or the squared distance of a score."""
        target = batch.targets[self.predicts]
        if self.predicts == "score":
            return squared_loss(logits_SL.squeeze(-1), target)
        if self.predicts == "labels":
            return label_set_loss(logits_SL, target, weight_L=self.weight_L)
        return one_label_loss(logits_SL, target, weight_L=self.weight_L, smoothing=self.smoothing)

    def metrics(self, loss: ObjectiveLoss) -> dict[str, float]:
        """The mean loss and the share of right samples."""
        return loss_and_accuracy(loss)

    def split(self, logits_SL: Tensor, batch: TensorBatch) -> list[NDArray[np.float32]]:
        """(L,) a sample."""
        return list(logits_SL.float().cpu().numpy())
