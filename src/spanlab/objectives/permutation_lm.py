"""Permutation language modelling: tokens are predicted in a random order, each from the tokens before it in that order.

Yang et al. 2019, XLNet. Examples carry the prediction order. The encoder's content stream sees the true tokens; its
query stream, computed at the predicted positions only, sees the tokens that the order allows. The output layer is the
word table with a bias.

If the encoder has a memory (Transformer-XL's), it is carried from step to step for each stream and is part of a
checkpoint (`recurrent_state`, `load_recurrent_state`). Training and evaluation have separate memories.

Shapes: B sequences, T tokens of each, K predicted tokens of the batch, P of a sequence, D width.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from spanlab.arrays import Integers, offsets
from spanlab.corruption.examples import Array, ExampleBatch, PredictionOrder
from spanlab.encoder import PermutationLMHead, XLNetEncoder
from spanlab.errors import InputError
from spanlab.objectives.batch import TensorBatch
from spanlab.objectives.chunked_cross_entropy import project
from spanlab.objectives.mixture import weigh
from spanlab.objectives.objective import CriterionLoss, ObjectiveLoss, token_metrics
from spanlab.objectives.recurrent_state import RecurrentState


class PermutationLM(nn.Module):
    """An XLNet encoder, its head and its loss, with the interface of `Criterion`."""

    name = "plm"

    def __init__(self, encoder: XLNetEncoder, head: PermutationLMHead, weight: float = 1.0) -> None:
        super().__init__()
        self.weights = {self.name: weight}
        self.encoder, self.head = encoder, head
        self._memories = {"train": RecurrentState(), "dev": RecurrentState()}

    @property
    def heads(self) -> dict[str, nn.Module]:
        """The head by objective, for `save_model`."""
        return {self.name: self.head}

    def counts(self, examples: ExampleBatch) -> dict[str, int]:
        """The predicted tokens."""
        return {self.name: len(examples.positions)}

    def require_targets(self, examples: ExampleBatch) -> None:
        """Reject examples without a prediction order."""
        _order_of(examples)

    def forward(self, batch: TensorBatch, counts: Mapping[str, int] | None = None) -> CriterionLoss:
        """The loss of a batch, normalised by the `counts` of the whole step; None: by its own counts."""
        order, shape = _order_of(batch), (len(batch.examples.lengths), -1)
        rank_BT, visible_below_BT = order.rank.view(shape), order.visible_below.view(shape)
        positions_BP, rows_K = _positions_by_sequence(batch.examples.positions, *rank_BT.shape)
        output = self.encoder.read(
            batch.input_ids.view(shape),
            visible_BTT=rank_BT[:, None, :] < visible_below_BT[:, :, None],
            positions_BK=positions_BP.to(rank_BT.device),
            segment_ids_BT=None if batch.pairs is None else batch.pairs.segment_ids.view(shape),
            memory_LBMD=self._load_memory(batch),
            backward_rows=_backward_rows(_order_of(batch.examples)),
        )
        self._store_memory(batch, output.memory_LBMD)
        assert output.predicted_BKD is not None
        hidden_KD = output.predicted_BKD.flatten(0, 1)
        if rows_K is not None:
            hidden_KD = hidden_KD.index_select(0, rows_K.to(hidden_KD.device))
        return weigh({self.name: self._loss(hidden_KD, batch)}, self.weights, counts)

    def metrics(self, parts: Mapping[str, ObjectiveLoss]) -> dict[str, float]:
        """Mean loss, accuracy and perplexity of the predicted tokens."""
        return {f"{metric}.{self.name}": value for metric, value in token_metrics(parts[self.name]).items()}

    def recurrent_state(self) -> dict[str, Tensor]:
        """The memory after the last training step, by stream."""
        return self._memories["train"].tensors()

    def load_recurrent_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `recurrent_state` returned."""
        self._memories["train"].load(state)

    def _load_memory(self, batch: TensorBatch) -> Tensor | None:
        """(L, B, M, D) the memory of the batch's streams; None at their first step."""
        if self.encoder.config.memory is None:
            return None
        examples, memory = batch.examples, self._memories["train" if self.training else "dev"]
        rows = memory.get(examples.indices, examples.streams, batch.input_ids.device)
        return None if rows is None else rows["memory"].transpose(0, 1)

    def _store_memory(self, batch: TensorBatch, memory_LBMD: Tensor) -> None:
        if self.encoder.config.memory is not None:
            examples, memory = batch.examples, self._memories["train" if self.training else "dev"]
            memory.put(examples.indices, examples.streams, {"memory": memory_LBMD.transpose(0, 1)})

    def _loss(self, hidden_KD: Tensor, batch: TensorBatch) -> ObjectiveLoss:
        table_VD = self.encoder.word_table if self.head.decoder is None else self.head.decoder
        projection = project(hidden_KD, table_VD, self.head.bias, batch.targets)
        tallies = {"correct": projection.correct}
        return ObjectiveLoss(total=projection.total, count=len(batch.examples.positions), tallies=tallies)


def _order_of(examples: ExampleBatch[Array]) -> PredictionOrder[Array]:
    if examples.order is None:
        fix = "set masking.law=permutation, or objectives.plm=0"
        raise InputError("the examples have no order of prediction for the plm objective", fix=fix)
    return examples.order


def _backward_rows(order: PredictionOrder) -> int:
    """The number of sequences that are read backwards; they must be the last ones of the batch."""
    if (order.backward[:-1] & ~order.backward[1:]).any():
        raise InputError("examples that are read backwards must come after the others in a batch")
    return int(order.backward.sum())


def _positions_by_sequence(positions_K: Integers, batch_size: int, length: int) -> tuple[Tensor, Tensor | None]:
    """(B, P) the predicted positions of each sequence; (K,) the rows of B·P that are not padding, None for all.

    `positions_K` counts over all sequences, each of `length` tokens.
    """
    sequence_K, position_K = np.divmod(positions_K, length)
    counts_B = np.bincount(sequence_K, minlength=batch_size)
    width = int(counts_B.max(initial=1))
    if (counts_B == width).all():
        return torch.from_numpy(position_K.reshape(batch_size, width)), None
    column_K = np.arange(len(sequence_K)) - np.repeat(offsets(counts_B), counts_B)
    positions_BP = np.zeros((batch_size, width), np.int64)
    positions_BP[sequence_K, column_K] = position_K
    return torch.from_numpy(positions_BP), torch.from_numpy(sequence_K * width + column_K)
