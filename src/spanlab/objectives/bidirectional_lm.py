"""Bidirectional language modelling: the next word from those before it, and the one before from those after it.

Peters et al. 2018, ELMo. Two LSTM directions share the words' vectors and the softmax; each predicts from its own
side alone, so neither sees what it predicts. Examples come from `bidirectional_examples`: the first half of a batch's
sequences is read forwards, the second half, reversed already, by the backward direction. In continuous streams the
states go on from step to step.

The published softmax was sampled (8,192 words of the vocabulary a batch), an estimate of the exact one that is used
here; the projection is chunked, so memory does not grow with the vocabulary times the batch.

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
    """An ELMo with its loss; to a training loop it looks like `Mixture`."""

    def __init__(self, encoder: ElmoEncoder, head: BidirectionalLMHead, weight: float = 1.0) -> None:
        super().__init__()
        # The mixture of layers is learnt with a task; here it has no gradient, and must not be waited for.
        encoder.mixture.requires_grad_(False)
        self.weights = {"bilm": weight}
        self.encoder, self.head = encoder, head
        self.dropout = Dropout(encoder.elmo_config.dropout)
        self._states = {"train": RecurrentState(), "dev": RecurrentState()}

    @property
    def heads(self) -> dict[str, nn.Module]:
        """The head by objective, as `save_model` takes it."""
        return {"bilm": self.head}

    def counts(self, examples: ExampleBatch) -> dict[str, int]:
        """The words predicted in both directions."""
        return {"bilm": len(examples.positions)}

    def require_targets(self, examples: ExampleBatch) -> None:
        """Refuse examples that were not made for two directions."""
        half, rest = divmod(len(examples.lengths), 2)
        if rest or not np.array_equal(examples.indices[:half], examples.indices[half:]):
            raise InputError("the bilm objective needs each sample twice, forwards and reversed")

    def forward(self, batch: TensorBatch, counts: Mapping[str, int] | None = None) -> CriterionLoss:
        """The loss of this batch as a part of a step with `counts` terms; alone, its own counts."""
        self.require_targets(batch.examples)
        hidden_NP = self._read(batch)
        hidden_KP = self.dropout(hidden_NP).index_select(0, batch.positions)
        projection = project(hidden_KP, self.head.decoder, self.head.bias, batch.targets)
        count = len(batch.examples.positions)
        part = ObjectiveLoss(total=projection.total, count=count, tallies={"correct": projection.correct})
        return weigh({"bilm": part}, self.weights, counts)

    def metrics(self, parts: Mapping[str, ObjectiveLoss]) -> dict[str, float]:
        """Mean loss, accuracy and perplexity over both directions."""
        return {f"{metric}.bilm": value for metric, value in token_metrics(parts["bilm"]).items()}

    def recurrent_state(self) -> dict[str, Tensor]:
        """The state after the last training step, to be saved with a checkpoint."""
        return self._states["train"].tensors()

    def load_recurrent_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `recurrent_state` returned."""
        self._states["train"].load(tensors)

    def _read(self, batch: TensorBatch) -> Tensor:
        """(N, P) the last layer of either direction, for the sequences that it reads."""
        lengths, streams = batch.examples.lengths.tolist(), batch.examples.streams
        half = len(lengths) // 2
        # Both directions are at the same steps of the same streams.
        samples = batch.examples.indices[:half]
        words_NP = self.encoder.word_vectors(batch.input_ids)
        parts = torch.split(words_NP, [sum(lengths[:half]), sum(lengths[half:])])
        readers = {"forward": self.encoder.forward_reader, "backward": self.encoder.backward_reader}
        recurrent_state = self._states["train" if self.training else "dev"]
        initial = recurrent_state.begin(samples, streams, words_NP.device)
        hidden, final = [], {}
        halves = (lengths[:half], lengths[half:])
        for (direction, reader), x_NP, part_lengths in zip(readers.items(), parts, halves, strict=True):
            states = None if initial is None else _from_rows(direction, initial, len(reader.layers))
            layers, states = reader(x_NP, time_major(part_lengths, x_NP.device), states)
            hidden.append(layers[-1])
            final.update(_to_rows(direction, states))
        recurrent_state.keep(samples, streams, final)
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
