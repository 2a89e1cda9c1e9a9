"""A whole sequence to a label, a set of labels, or a score: what classification and similarity have in common.

Shapes: S samples, L labels.
"""

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from spanlab.encoder import Encoder, EncoderConfig, SequenceHead
from spanlab.encoder.heads import POOLED
from spanlab.encoder.model import init_weights
from spanlab.objectives.objective import ObjectiveLoss, loss_and_accuracy
from spanlab.tasks.head import Encoded, StandardHead
from spanlab.tasks.losses import label_set_loss, one_label_loss, squared_loss
from spanlab.tasks.sample import SampleBatch, TensorBatch

_SUMMARY_LAST: tuple[str, ...] = ("xlnet",)
"""Architectures whose frame has its first-token sign at the end."""


def pools_last_token(config: EncoderConfig) -> bool:
    """Whether the last token is the one that has seen all others."""
    return config.causal or config.architecture in _SUMMARY_LAST


def summary_tokens(encoded: Encoded, *, last: bool) -> Tensor:
    """(B, D) the hidden state of the first token of each sequence, or of the last."""
    batch = encoded.batch
    places_B = batch.starts + batch.lengths_B - 1 if last else batch.starts
    return encoded.hidden_ND.index_select(0, places_B)


def add_pooler(encoder: Encoder) -> None:
    """Give an encoder of a family with poolers a new one, where its checkpoint had none."""
    config = encoder.config
    if config.architecture in POOLED and not config.pooler and hasattr(encoder, "embeddings"):
        encoder.pooler = nn.Linear(config.width, config.width)
        init_weights(encoder.pooler, config.init_std)
        encoder.config = replace(config, pooler=True)


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
