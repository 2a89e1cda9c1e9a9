"""Bidirectional language modelling: each word from the words before it, and from the words after it.

Peters et al. 2018, ELMo. Two LSTMs, one a direction, share the word vectors and the softmax; each sees one side of a
word only. Batches come from `bidirectional_examples`: the first half of the sequences is for the forward LSTM, the
second half is the same text reversed, for the backward LSTM. In continuous streams the LSTM states are carried from
step to step.

The published code samples the softmax (8,192 words of the vocabulary a batch); here it is exact. The projection is
chunked, so memory does not grow with the vocabulary times the batch.

Shapes: B sequences of each direction, N tokens of both, K predicted tokens, P width of a direction, V vocabulary.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from spanlab.corruption.examples import ExampleBatch
from spanlab.encoder import BidirectionalLMHead, ElmoEncoder
from spanlab.encoder.elmo.lstm import LSTMState, time_major
from spanlab.encoder.layers import Dropout
from spanlab.errors import InputError
from spanlab.objectives.batch import TensorBatch
from spanlab.objectives.chunked_cross_entropy import project
from spanlab.objectives.mixture import weigh
from spanlab.objectives.objective import CriterionLoss, ObjectiveLoss, token_metrics
from spanlab.objectives.recurrent_state import RecurrentState


class BidirectionalLM(nn.Module):
    """An ELMo encoder, its head and its loss, with the interface of `Criterion`."""

    def __init__(self, encoder: ElmoEncoder, head: BidirectionalLMHead, weight: float = 1.0) -> None:
        super().__init__()
        # The weights of the layers are trained with a task only; without a gradient, DDP would wait for them.
        encoder.mixture.requires_grad_(False)
        self.weights = {"bilm": weight}
        self.encoder, self.head = encoder, head
        self.dropout = Dropout(encoder.elmo_config.dropout)
        self._states = {"train": RecurrentState(), "dev": RecurrentState()}

    @property
    def heads(self) -> dict[str, nn.Module]:
        """The head by objective, for `save_model`."""
        return {"bilm": self.head}

    def counts(self, examples: ExampleBatch) -> dict[str, int]:
        """The words predicted in both directions."""
        return {"bilm": len(examples.positions)}

    def require_targets(self, examples: ExampleBatch) -> None:
        """Reject batches in which a sample does not appear in both directions."""
        half, odd = divmod(len(examples.lengths), 2)
        if odd or not np.array_equal(examples.indices[:half], examples.indices[half:]):
            fix = "build the batch with bidirectional_examples"
            raise InputError("the bilm objective needs each sample twice, forwards and reversed", fix=fix)

    def forward(self, batch: TensorBatch, counts: Mapping[str, int] | None = None) -> CriterionLoss:
        """The loss of a batch, normalised by the `counts` of the whole step; None: by its own counts."""
        self.require_targets(batch.examples)
        hidden_KP = self.dropout(self._encode(batch)).index_select(0, batch.positions)
        projection = project(hidden_KP, self.head.decoder, self.head.bias, batch.targets)
        count = len(batch.examples.positions)
        part = ObjectiveLoss(total=projection.total, count=count, tallies={"correct": projection.correct})
        return weigh({"bilm": part}, self.weights, counts)

    def metrics(self, parts: Mapping[str, ObjectiveLoss]) -> dict[str, float]:
        """Mean loss, accuracy and perplexity over both directions."""
        return {f"{metric}.bilm": value for metric, value in token_metrics(parts["bilm"]).items()}

    def recurrent_state(self) -> dict[str, Tensor]:
        """The LSTM states after the last training step, by stream."""
        return self._states["train"].tensors()

    def load_recurrent_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `recurrent_state` returned."""
        self._states["train"].load(tensors)

    def _encode(self, batch: TensorBatch) -> Tensor:
        """(N, P) the last layer: the forward LSTM on the first half of the sequences, the backward on the second."""
        lengths, streams = batch.examples.lengths.tolist(), batch.examples.streams
        half = len(lengths) // 2
        samples = batch.examples.indices[:half]  # the second half has the same
        words_NP = self.encoder.word_vectors(batch.input_ids)
        state = self._states["train" if self.training else "dev"]
        initial = state.get(samples, streams, words_NP.device)
        directions = {"forward": self.encoder.forward_reader, "backward": self.encoder.backward_reader}
        direction_lengths = (lengths[:half], lengths[half:])
        parts = torch.split(words_NP, [sum(lengths[:half]), sum(lengths[half:])])
        hidden, final = [], {}
        for (name, reader), x_NP, reader_lengths in zip(directions.items(), parts, direction_lengths, strict=True):
            lstm_states = None if initial is None else _from_rows(name, initial, len(reader.layers))
            layers, lstm_states = reader(x_NP, time_major(reader_lengths, x_NP.device), lstm_states)
            hidden.append(layers[-1])
            final.update(_to_rows(name, lstm_states))
        state.put(samples, streams, final)
        return torch.cat(hidden)


def _to_rows(direction: str, states: list[LSTMState]) -> dict[str, Tensor]:
    rows = {}
    for layer, state in enumerate(states):
        rows[f"{direction}.{layer}.hidden"], rows[f"{direction}.{layer}.cell"] = state.hidden_BP, state.cell_BC
    return rows


def _from_rows(direction: str, rows: Mapping[str, Tensor], layers: int) -> list[LSTMState]:
    return [
        LSTMState(rows[f"{direction}.{layer}.hidden"], rows[f"{direction}.{layer}.cell"]) for layer in range(layers)
    ]
