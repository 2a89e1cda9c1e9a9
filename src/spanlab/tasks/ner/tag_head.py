"""The head of `head=tag`: logits of the tags of each unit.

Shapes: N tokens, D width, U units, C tags.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from spanlab.encoder import EncoderConfig
from spanlab.encoder.heads import TokenHead
from spanlab.objectives.objective import ObjectiveLoss
from spanlab.tasks.head import Encoded, Head, StandardHead
from spanlab.tasks.heads import balanced_weights, on_host, one_label_loss
from spanlab.tasks.host_head import by_feature
from spanlab.tasks.sample import SampleBatch
from spanlab.tasks.tensor_batch import TensorBatch


class TagHead(Head):
    """The token classifier that transformers has, read at the first token of each unit."""

    features = ("positions",)
    weight_C: Tensor | None

    def __init__(
        self,
        encoder: EncoderConfig,
        tags: tuple[str, ...],
        *,
        smoothing: float = 0.0,
        counts: Sequence[int] = (),
    ) -> None:
        """`counts`: of each tag in the training data, for tags that are weighted; none: all weigh the same."""
        super().__init__()
        self.tokens = TokenHead(encoder, len(tags))
        self.tags, self.smoothing = tags, smoothing
        self.register_buffer("weight_C", balanced_weights(counts) if counts else None, persistent=False)

    @property
    @override
    def standard(self) -> StandardHead:
        return StandardHead(kind="token", layer=self.tokens, labels=self.tags)

    @override
    def count(self, batch: SampleBatch) -> int:
        return sum(len(sample.targets["tags"]) for sample in batch.samples)

    @override
    def forward(self, encoded: Encoded) -> Tensor:
        """(U, C) logits."""
        return self.tokens(encoded.hidden_ND.index_select(0, encoded.batch.packed("positions")))  # type: ignore[no-any-return]

    @override
    def loss(self, logits: Tensor, batch: TensorBatch) -> ObjectiveLoss:
        return one_label_loss(logits, batch.targets["tags"], weight_L=self.weight_C, smoothing=self.smoothing)

    @override
    def split(self, logits: Tensor, batch: TensorBatch) -> list[NDArray[np.float32]]:
        """(U, C) the logits of each sample's units."""
        return by_feature("positions")(on_host(logits), batch.batch)
