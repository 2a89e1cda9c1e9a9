"""Texts to vectors: the mean of the last hidden states over all tokens of a text, of length one.

Special tokens count in the mean, as in sentence-transformers, so a model published there gives the vectors it gives
there. A long text is the mean over all its windows, each by its tokens.

Shapes: B sequences, N tokens, S samples, D width, E texts.
"""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from spanlab.encoder import Encoder
from spanlab.objectives.objective import ObjectiveLoss, in_full_precision
from spanlab.tasks.base import Encoded, Head
from spanlab.tasks.network import MultiTaskNetwork
from spanlab.tasks.predict import compute_outputs
from spanlab.tasks.sample import Sample, SampleBatch, TensorBatch
from spanlab.tasks.windows import Windower
from spanlab.training.distributed import ProcessContext


def sums_by_sequence(encoded: Encoded) -> Tensor:
    """(B, D) the sum of the hidden states of each sequence."""
    lengths_B = encoded.batch.lengths_B
    hidden_ND = in_full_precision(encoded.hidden_ND)
    sequence_N = torch.repeat_interleave(torch.arange(len(lengths_B), device=hidden_ND.device), lengths_B)
    return hidden_ND.new_zeros(len(lengths_B), hidden_ND.shape[1]).index_add_(0, sequence_N, hidden_ND)


class MeanOfTokens(Head):
    """The head of a plain embedding: no weights."""

    @override
    def count(self, batch: SampleBatch) -> int:
        return 0

    @override
    def forward(self, encoded: Encoded) -> Tensor:
        """(B, D) sums; a sample is one window of a text."""
        return sums_by_sequence(encoded)

    @override
    def loss(self, logits: Tensor, batch: TensorBatch) -> ObjectiveLoss:
        raise NotImplementedError

    @override
    def metrics(self, loss: ObjectiveLoss) -> dict[str, float]:
        return {}

    @override
    def split(self, logits: Tensor, batch: TensorBatch) -> list[NDArray[np.float32]]:
        """(D,) a sample."""
        return list(logits.float().cpu().numpy())


def embed_texts(
    encoder: Encoder, windower: Windower, texts: Sequence[str], *, batch_tokens: int, process: ProcessContext
) -> NDArray[np.float32]:
    """(E, D) a vector of length one for each text; the cosine of two is their product."""
    samples = [
        Sample(example=number, sequences=(window.sequence,))
        for number, tokens in enumerate(windower.tokenize(texts))
        for window in windower.single(tokens)
    ]
    network = MultiTaskNetwork(encoder, {"embedding": MeanOfTokens()})
    sums = compute_outputs(network, samples, task="embedding", batch_tokens=batch_tokens, process=process)
    vectors_ED = np.zeros((len(texts), encoder.config.width), np.float32)
    np.add.at(vectors_ED, [sample.example for sample in samples], np.array(sums).reshape(-1, encoder.config.width))
    # The direction of the sum is that of the mean.
    return F.normalize(torch.from_numpy(vectors_ED), dim=-1).numpy()
