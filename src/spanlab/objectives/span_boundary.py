"""The span boundary objective: every token of a masked span from the span's two boundary tokens and its offset in it.

Joshi et al. 2020, SpanBERT. Needs, for every masked token, the two boundary positions and the offset in the span. The
published boundaries are the tokens just outside the span; the head can use the first and last inside it instead. Tokens
whose offset exceeds the head's position table have no target, as in the released code.

Shapes: N tokens, S masked tokens with boundaries, K of them with a target, D width.
"""

import numpy as np
import torch
from torch import nn

from spanlab.arrays import Integers
from spanlab.corruption.examples import Array, ExampleBatch, SpanBoundaries
from spanlab.encoder import SpanBoundaryHead
from spanlab.errors import InputError
from spanlab.objectives.batch import TensorBatch
from spanlab.objectives.chunked_cross_entropy import project
from spanlab.objectives.objective import Encoded, ObjectiveLoss, token_metrics


class SpanBoundary(nn.Module):
    """The span boundary head and its loss."""

    name = "sbo"

    def __init__(self, head: SpanBoundaryHead) -> None:
        super().__init__()
        self.head = head

    def count(self, examples: ExampleBatch) -> int:
        """The number of masked tokens whose offset is in the head's position table."""
        offsets = _boundaries_of(examples).offsets
        rows = self._rows_within(offsets)
        return len(offsets) if rows is None else len(rows)

    def require_targets(self, examples: ExampleBatch) -> None:
        """Reject masked tokens without boundaries."""
        if len(examples.positions) and not len(_boundaries_of(examples).offsets):
            raise _no_boundaries()

    def forward(self, encoded: Encoded, batch: TensorBatch) -> ObjectiveLoss:
        """The cross-entropy summed over the tokens that have a target."""
        boundaries = _boundaries_of(batch)
        left_S, right_S = boundaries.left, boundaries.right
        if self.head.config.boundaries == "internal":
            left_S, right_S = boundaries.first, boundaries.last
        per_token = [left_S, right_S, boundaries.offsets, boundaries.targets]
        rows = self._rows_within(_boundaries_of(batch.examples).offsets)
        if rows is not None:
            rows_K = torch.from_numpy(rows).to(left_S.device)
            per_token = [x_S.index_select(0, rows_K) for x_S in per_token]
        left_K, right_K, offset_K, target_K = per_token
        left_KD, right_KD = (encoded.hidden_ND.index_select(0, position_K) for position_K in (left_K, right_K))
        features_KE = self.head.features(left_KD, right_KD, offset_K)
        table_VE = encoded.word_table_VE if self.head.decoder is None else self.head.decoder
        projection = project(features_KE, table_VE, self.head.bias, target_K)
        return ObjectiveLoss(total=projection.total, count=len(target_K), tallies={"correct": projection.correct})

    def metrics(self, loss: ObjectiveLoss) -> dict[str, float]:
        """Mean loss, accuracy and perplexity of the masked tokens."""
        return token_metrics(loss)

    def _rows_within(self, offsets: Integers) -> Integers | None:
        """The rows whose offset is in the position table; None for all of them."""
        limit = self.head.config.span_limit
        if limit is None or offsets.max(initial=0) < limit:
            return None
        return np.flatnonzero(offsets < limit)


def _boundaries_of(examples: ExampleBatch[Array]) -> SpanBoundaries[Array]:
    if examples.boundaries is None:
        raise _no_boundaries()
    return examples.boundaries


def _no_boundaries() -> InputError:
    fix = "use a masking law that marks spans, or set objectives.sbo=0"
    return InputError("the examples have masked tokens but no span boundaries for the sbo objective", fix=fix)
