"""A whole sequence to a label, a set of labels, or a score: what classification and similarity have in common.

Shapes: S samples, L labels.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from spanlab.encoder import Encoder, EncoderConfig, SequenceHead, architecture_of
from spanlab.objectives.objective import ObjectiveLoss
from spanlab.tasks.base import Encoded, Head, StandardHead
from spanlab.tasks.losses import label_set_loss, one_label_loss, squared_loss
from spanlab.tasks.sample import TensorBatch


def pools_last_token(config: EncoderConfig) -> bool:
    """Whether the last token is the one that has seen all others."""
    return config.causal or architecture_of(config).pools_last_token


def summary_tokens(encoded: Encoded, *, last: bool) -> Tensor:
    """(B, D) the hidden state of the first token of each sequence, or of the last."""
    batch = encoded.batch
    places_B = batch.starts + batch.lengths_B - 1 if last else batch.starts
    return encoded.hidden_ND.index_select(0, places_B)


def add_pooler(encoder: Encoder) -> None:
    """Give an encoder whose sequence head needs a pooler a new one, where its checkpoint had none."""
    if architecture_of(encoder.config).has_pooled_head and not encoder.config.pooler:
        encoder.add_pooler()


class SequenceTaskHead(Head):
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
    @override
    def standard(self) -> StandardHead:
        """All of its weights are the sequence head's."""
        return StandardHead(kind="sequence", layer=self.layer, labels=self.labels)

    @property
    @override
    def uses_pooler(self) -> bool:
        return self.layer.on_pooled

    @override
    def forward(self, encoded: Encoded) -> Tensor:
        """(S, L) logits, or (S, 1) scores."""
        return self.layer(summary_tokens(encoded, last=self.last), encoded.pooled_BD)  # type: ignore[no-any-return]

    @override
    def loss(self, logits_SL: Tensor, batch: TensorBatch) -> ObjectiveLoss:
        """Cross-entropy of a label or of a set of them, or the squared distance of a score."""
        target = batch.targets[self.predicts]
        if self.predicts == "score":
            return squared_loss(logits_SL.squeeze(-1), target)
        if self.predicts == "labels":
            return label_set_loss(logits_SL, target, weight_L=self.weight_L)
        return one_label_loss(logits_SL, target, weight_L=self.weight_L, smoothing=self.smoothing)

    @override
    def split(self, logits_SL: Tensor, batch: TensorBatch) -> list[NDArray[np.float32]]:
        """(L,) a sample."""
        return list(logits_SL.float().cpu().numpy())
