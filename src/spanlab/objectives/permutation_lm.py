"""Permutation language modelling: predicted tokens one after the other in a random order, each from those before it.

Yang et al. 2019, XLNet. Needs examples with an order. The encoder sees true tokens; its query stream, computed at the
predicted positions alone, knows what the order allows. The word table with a bias says the token.

Where the encoder's config has a memory, the memory of a stream is kept from step to step. It is part of a
run's state: `recurrent_state` and `load_recurrent_state` save and restore it. Evaluation has a memory of its own.

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
    """An XLNet encoder with its head and loss; to a training loop it looks like `Mixture`."""

    name = "plm"

    def __init__(self, encoder: XLNetEncoder, head: PermutationLMHead, weight: float = 1.0) -> None:
        super().__init__()
        self.weights = {self.name: weight}
        self.encoder, self.head = encoder, head
        self._states = {"train": RecurrentState(), "dev": RecurrentState()}

    @property
    def heads(self) -> dict[str, nn.Module]:
        """The head, as `save_model` takes it."""
        return {self.name: self.head}

    def counts(self, examples: ExampleBatch) -> dict[str, int]:
        """The predicted tokens."""
        return {self.name: len(examples.positions)}

    def require_targets(self, examples: ExampleBatch) -> None:
        """Refuse examples without an order."""
        _order_of(examples)

    def forward(self, batch: TensorBatch, counts: Mapping[str, int] | None = None) -> CriterionLoss:
        """The loss of this batch as a part of a step with `counts` terms; alone, its own counts."""
        order, shape = _order_of(batch), (len(batch.examples.lengths), -1)
        rank_BT, visible_below_BT = order.rank.view(shape), order.visible_below.view(shape)
        positions_BP, rows_K = _positions_by_sequence(batch.examples.positions, *rank_BT.shape)
        read = self.encoder.read(
            batch.input_ids.view(shape),
            visible_BTT=rank_BT[:, None, :] < visible_below_BT[:, :, None],
            positions_BK=positions_BP.to(rank_BT.device),
            segment_ids_BT=None if batch.pairs is None else batch.pairs.segment_ids.view(shape),
            memory_LBMD=self._recall(batch),
            backward_rows=_backward_rows(_order_of(batch.examples)),
        )
        self._remember(batch, read.memory_LBMD)
        assert read.predicted_BKD is not None
        hidden_KD = read.predicted_BKD.flatten(0, 1)
        if rows_K is not None:
            hidden_KD = hidden_KD.index_select(0, rows_K.to(hidden_KD.device))
        return weigh({self.name: self._loss(hidden_KD, batch)}, self.weights, counts)

    def metrics(self, parts: Mapping[str, ObjectiveLoss]) -> dict[str, float]:
        """Mean loss, accuracy and perplexity of the predicted tokens."""
        return {f"{metric}.{self.name}": value for metric, value in token_metrics(parts[self.name]).items()}

    def recurrent_state(self) -> dict[str, Tensor]:
        """The memory of each stream in training, to be saved with a checkpoint."""
        return self._states["train"].tensors()

    def load_recurrent_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `recurrent_state` returned."""
        self._states["train"].load(state)

    def _recall(self, batch: TensorBatch) -> Tensor | None:
        """(L, B, M, D) what is remembered of the streams."""
        if self.encoder.config.memory is None:
            return None
        examples, state = batch.examples, self._states["train" if self.training else "dev"]
        initial = state.begin(examples.indices, examples.streams, batch.input_ids.device)
        return None if initial is None else initial["memory"].transpose(0, 1)

    def _remember(self, batch: TensorBatch, memory_LBMD: Tensor) -> None:
        if self.encoder.config.memory is not None:
            examples, state = batch.examples, self._states["train" if self.training else "dev"]
            state.keep(examples.indices, examples.streams, {"memory": memory_LBMD.transpose(0, 1)})

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
    """How many sequences, the last ones, are read backwards."""
    if (order.backward[:-1] & ~order.backward[1:]).any():
        raise InputError("examples that are read backwards must come after the others in a batch")
    return int(order.backward.sum())


def _positions_by_sequence(positions_K: Integers, batch: int, tokens: int) -> tuple[Tensor, Tensor | None]:
    """(B, P) the predicted positions of each sequence and, unless all have P, the (K,) rows of B·P that are real."""
    row_K, position_K = np.divmod(positions_K, tokens)
    counts_B = np.bincount(row_K, minlength=batch)
    most = int(counts_B.max(initial=1))
    if (counts_B == most).all():
        return torch.from_numpy(position_K.reshape(batch, most)), None
    column_K = np.arange(len(row_K)) - np.repeat(offsets(counts_B), counts_B)
    positions_BP = np.zeros((batch, most), np.int64)
    positions_BP[row_K, column_K] = position_K
    return torch.from_numpy(positions_BP), torch.from_numpy(row_K * most + column_K)
