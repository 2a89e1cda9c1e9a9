"""The head of extractive summaries: a logit for each sentence of being in the summary.

Input: the hidden states of all windows of a document. The vectors of its sentences, from all windows, pass together
through a few Transformer layers with sinusoidal positions (Liu and Lapata 2019); sentences of different documents do
not attend to each other.

Shapes: N tokens, P tokens that represent sentences, K sentences, S samples (documents), D width.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import override

from spanlab.arrays import sinusoids
from spanlab.encoder import EncoderConfig
from spanlab.encoder.attention import LayerContext
from spanlab.encoder.block import Block
from spanlab.encoder.layers import init_weights
from spanlab.encoder.packing import pack_lengths
from spanlab.encoder.padded import PaddedContext, padded
from spanlab.objectives.objective import ObjectiveLoss, in_full_precision
from spanlab.tasks.head import Encoded, Head
from spanlab.tasks.head_graphs import HeadGraph, indices
from spanlab.tasks.heads import on_host, sum_rows
from spanlab.tasks.host_head import LOGITS, by_feature
from spanlab.tasks.sample import SampleBatch
from spanlab.tasks.summarisation.host_sentences import POSITIONS, SENTENCE
from spanlab.tasks.tensor_batch import TensorBatch

_HEADS = 8
"""As published; a width that 8 does not divide gets fewer."""


class SentenceHead(Head):
    """Inter-sentence layers and one logit a sentence."""

    def __init__(self, encoder: EncoderConfig, *, layers: int) -> None:
        super().__init__()
        shape = EncoderConfig(
            width=encoder.width,
            heads=math.gcd(encoder.width, _HEADS),
            inner_width=4 * encoder.width,
            norm_place="pre",
            dropout=encoder.dropout,
            attention_dropout=encoder.attention_dropout,
        )
        self.layers = nn.ModuleList(Block(shape) for _ in range(layers))
        self.norm = nn.LayerNorm(encoder.width)
        self.score = nn.Linear(encoder.width, 1)
        for module in self.modules():
            init_weights(module, encoder.init_std)

    @override
    def count(self, batch: SampleBatch) -> int:
        return sum(_sentence_counts(batch))

    @override
    def forward(self, encoded: Encoded) -> Tensor:
        """(K,) logits of all documents' sentences, end to end."""
        x_KD = sentence_vectors(encoded)
        lengths = _sentence_counts(encoded.batch.batch)
        if len(self.layers):
            table_TD = torch.from_numpy(sinusoids(max(lengths), x_KD.shape[1])).to(x_KD)
            x_KD = x_KD + torch.cat([table_TD[:length] for length in lengths])
            packing = pack_lengths(len(x_KD), torch.tensor(lengths, device=x_KD.device))
            x_KD = packing.flatten(x_KD)
            for layer in self.layers:
                x_KD, _ = layer(x_KD, LayerContext(packing.runs))
            x_KD = packing.restore(x_KD)
        return self.score(self.norm(x_KD)).squeeze(-1)  # type: ignore[no-any-return]

    @override
    def graphs(self) -> dict[str, HeadGraph]:
        """The logits of one document's sentences."""
        width = self.norm.normalized_shape[0]
        examples = indices("positions", "counts") | {SENTENCE: torch.arange(3), POSITIONS: torch.randn(3, width)}
        layers = padded(self.layers)

        def compute(encoded: Encoded) -> Tensor:
            position_P, counts_K, sentence_P, table_KD = (
                encoded.batch.features[name] for name in ("positions", "counts", SENTENCE, POSITIONS)
            )
            x_KD = _means(encoded.hidden_ND, position_P, sentence_P, counts_K)
            if len(self.layers):
                x_1KD = (x_KD + table_KD).unsqueeze(0)
                everywhere = PaddedContext((), mask_B1T=torch.ones_like(counts_K, dtype=torch.bool)[None, None])
                for layer in layers.children():
                    x_1KD, _ = layer(x_1KD, everywhere)
                x_KD = x_1KD.squeeze(0)
            return self.score(self.norm(x_KD)).squeeze(-1)  # type: ignore[no-any-return]

        return {LOGITS: HeadGraph(compute=compute, examples=examples)}

    @override
    def loss(self, logits_K: Tensor, batch: TensorBatch) -> ObjectiveLoss:
        logits_K, target_K = in_full_precision(logits_K), batch.targets["labels"]
        total = F.binary_cross_entropy_with_logits(logits_K, target_K.to(logits_K.dtype), reduction="sum")
        correct = ((logits_K.detach() > 0) == (target_K > 0.5)).sum()
        return ObjectiveLoss(total=total, count=len(target_K), tallies={"correct": correct})

    @override
    def split(self, logits_K: Tensor, batch: TensorBatch) -> list[NDArray[np.float32]]:
        """(K,) the logits of each document."""
        return by_feature("counts")(on_host(logits_K), batch.batch)


def sentence_vectors(encoded: Encoded) -> Tensor:
    """(K, D) the mean of the tokens that represent each sentence."""
    batch = encoded.batch
    counts_S = batch.input_ids_N.new_tensor([len(sample.features["positions"]) for sample in batch.batch.samples])
    tokens_S = batch.input_ids_N.new_tensor(batch.token_counts)
    begin_S = torch.cumsum(tokens_S, 0) - tokens_S
    position_P = batch.features["positions"] + torch.repeat_interleave(begin_S, counts_S)
    counts_K = batch.features["counts"]
    sentence_P = torch.repeat_interleave(torch.arange(len(counts_K), device=position_P.device), counts_K)
    return _means(encoded.hidden_ND, position_P, sentence_P, counts_K)


def _means(hidden_ND: Tensor, position_P: Tensor, sentence_P: Tensor, counts_K: Tensor) -> Tensor:
    """(K, D) the means of tokens; `sentence_P` is the sentence that each represents."""
    hidden_PD = in_full_precision(hidden_ND.index_select(0, position_P))
    return sum_rows(hidden_PD, sentence_P, counts_K.shape[0]) / counts_K.unsqueeze(1)


def _sentence_counts(batch: SampleBatch) -> list[int]:
    """(S,) how many sentences each document has."""
    return [len(sample.features["counts"]) for sample in batch.samples]
