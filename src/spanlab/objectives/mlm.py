"""Masked language modelling: the original token at every masked position, from the hidden state there.

Devlin et al. 2019, BERT. Needs the masked positions and their targets. Logits are computed at those positions only.
Where a mask stands for a collapsed span, every token of the span is predicted from it, told apart by its offset; tokens
whose offset exceeds the head's table have no target, as in the span boundary objective.

Shapes: N tokens, K predicted tokens, D width, V vocabulary, E width of the word table.
"""

import numpy as np
import torch
from torch import Tensor, nn

from spanlab.arrays import Integers
from spanlab.corruption.examples import ExampleBatch
from spanlab.encoder import MaskedLMHead
from spanlab.errors import InputError
from spanlab.objectives.batch import TensorBatch
from spanlab.objectives.chunked_cross_entropy import Projection, project
from spanlab.objectives.objective import Encoded, ObjectiveLoss, token_metrics


class MaskedLM(nn.Module):
    """The MLM head and its loss."""

    name = "mlm"

    def __init__(self, head: MaskedLMHead) -> None:
        super().__init__()
        self.head = head

    def count(self, examples: ExampleBatch) -> int:
        """K, without the tokens of collapsed spans whose offset is not in the head's table."""
        rows = _rows_within(self.head, examples)
        return len(examples.positions) if rows is None else len(rows)

    def require_targets(self, examples: ExampleBatch) -> None:
        """Reject collapsed spans if the head cannot tell their tokens apart; without masked tokens the loss is zero."""
        if examples.offsets is not None and self.head.offset is None:
            fix = "build MaskedLMHead with offsets=20, or mask without collapsing spans"
            raise InputError("spans are collapsed, but the mlm head cannot tell their tokens apart", fix=fix)

    def forward(self, encoded: Encoded, batch: TensorBatch) -> ObjectiveLoss:
        """The cross-entropy summed over the masked tokens."""
        return masked_lm_loss(project_masked(self.head, encoded, batch), self.count(batch.examples))

    def metrics(self, loss: ObjectiveLoss) -> dict[str, float]:
        """Mean loss, accuracy and perplexity of the masked tokens."""
        return token_metrics(loss)


def _rows_within(head: MaskedLMHead, examples: ExampleBatch) -> Integers | None:
    """The predicted tokens whose offset is in the head's table; None for all of them."""
    limit = 1 if head.offset is None else head.offset.num_embeddings
    if examples.offsets is None or examples.offsets.max(initial=0) < limit:
        return None
    return np.flatnonzero(examples.offsets < limit)


def project_masked(
    head: MaskedLMHead, encoded: Encoded, batch: TensorBatch, uniforms_K: Tensor | None = None
) -> Projection:
    """Loss and accuracy of the head at the masked positions; with `uniforms_K`, also a token drawn at each."""
    positions_K, targets_K, offsets_K = batch.positions, batch.targets, batch.offsets
    rows = _rows_within(head, batch.examples)
    if rows is not None and offsets_K is not None:
        rows_K = torch.from_numpy(rows).to(positions_K.device)
        positions_K, targets_K, offsets_K = positions_K[rows_K], targets_K[rows_K], offsets_K[rows_K]
    features_KE = head.features(encoded.hidden_ND.index_select(0, positions_K), offsets_K)
    table_VE = encoded.word_table_VE if head.decoder is None else head.decoder
    return project(features_KE, table_VE, head.bias, targets_K, uniforms_K=uniforms_K)


def masked_lm_loss(projection: Projection, count: int) -> ObjectiveLoss:
    """The loss of the objective from the projection of `count` masked tokens."""
    return ObjectiveLoss(total=projection.total, count=count, tallies={"correct": projection.correct})
