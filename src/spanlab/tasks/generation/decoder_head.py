"""A new decoder over any encoder: the target is written while it reads the source's hidden states (cross-attention).

Rothe et al. 2020 put such decoders over BERT and RoBERTa. The source is encoded as every text of the encoder is, with
its special tokens. The target begins after the tokenizer's class token, or its separator where it has none, and ends
with the separator.

The smoothed loss of a target y is the cross-entropy with 1 - ε at y and ε / V at every word. With t the word table, t̄
its mean row and h the features, that is the plain cross-entropy plus ε h·(t_y - t̄): no second pass over the vocabulary.

Shapes: K tokens of the targets, E width of the word table, V vocabulary.
"""

from dataclasses import dataclass, replace

import torch.nn.functional as F
from torch import Tensor
from typing_extensions import override

from spanlab.decoding.config import Decoded, DecodingConfig
from spanlab.decoding.generate import generate_targets
from spanlab.encoder import Decoder, Encoder, EncoderConfig, Memory
from spanlab.objectives.chunked_cross_entropy import project
from spanlab.objectives.objective import ObjectiveLoss, in_full_precision, token_metrics
from spanlab.tasks.generation.data import END, NEXT, READ, START
from spanlab.tasks.head import Encoded, Head
from spanlab.tasks.network import encode_samples
from spanlab.tasks.sample import SampleBatch
from spanlab.tasks.tensor_batch import TensorBatch


@dataclass(frozen=True, kw_only=True, eq=False)
class DecoderStates:
    """The features of the positions before target tokens, and the word table."""

    features_KE: Tensor
    word_table_VE: Tensor


class DecoderHead(Head):
    """The decoder with its cross-attention, in training and in search."""

    generates = True

    def __init__(
        self, config: EncoderConfig, decoding: DecodingConfig, *, memory_width: int, own_words: bool, smoothing: float
    ) -> None:
        """`own_words`: a word table of its own, in place of the encoder's."""
        super().__init__()
        self.decoder = Decoder(config, memory_width=memory_width, own_words=own_words)
        self.decoding, self.smoothing = decoding, smoothing

    @property
    @override
    def uses_words(self) -> bool:
        return not self.decoder.own_words

    @override
    def count(self, batch: SampleBatch) -> int:
        """The tokens of the targets, end tokens included."""
        return sum(len(sample.targets[NEXT]) for sample in batch.samples)

    @override
    def forward(self, encoded: Encoded) -> DecoderStates:
        """The features before each token of the targets."""
        batch = encoded.batch
        memory = Memory.of(encoded.hidden_ND, batch.lengths_B.tolist())
        lengths_B = batch.lengths_B.new_tensor([len(sample.targets[READ]) for sample in batch.batch.samples])
        features_KE = self.decoder(batch.targets[READ], lengths_B, memory, encoded.word_table_VE)
        return DecoderStates(features_KE=features_KE, word_table_VE=self.decoder.words(encoded.word_table_VE))

    @override
    def loss(self, states: DecoderStates, batch: TensorBatch) -> ObjectiveLoss:
        """Cross-entropy, smoothed in training, summed over the tokens of the targets."""
        features_KE, table_VE, next_K = states.features_KE, states.word_table_VE, batch.targets[NEXT]
        projection = project(features_KE, table_VE, None, next_K)
        total = projection.total
        if self.smoothing and self.training:
            away_KE = in_full_precision(F.embedding(next_K, table_VE) - table_VE.mean(dim=0))
            total = total + self.smoothing * (in_full_precision(features_KE) * away_KE).sum()
        return ObjectiveLoss(total=total, count=len(next_K), tallies={"correct": projection.correct})

    @override
    def metrics(self, loss: ObjectiveLoss) -> dict[str, float]:
        """Mean loss, accuracy and perplexity of a token."""
        return token_metrics(loss)

    @override
    def generate(self, encoder: Encoder, batch: TensorBatch) -> list[Decoded]:
        return self.search(encoder, batch, self.decoding)

    def search(
        self, encoder: Encoder, batch: TensorBatch, decoding: DecodingConfig, *, use_cache: bool = True
    ) -> list[Decoded]:
        """A target for each source, by greedy search, sampling or beam search."""
        encoded = encode_samples(encoder, batch, needs_words=self.uses_words)
        memory = Memory.of(encoded.hidden_ND, batch.lengths_B.tolist())
        config = replace(decoding, stop_ids=(int(batch.features[END][0]),))
        start = int(batch.features[START][0])
        table_VE = encoded.word_table_VE
        return generate_targets(self.decoder, memory, start, config, word_table_VE=table_VE, use_cache=use_cache)

    @override
    def split(self, decoded: list[Decoded], batch: TensorBatch) -> list[Decoded]:
        return decoded
