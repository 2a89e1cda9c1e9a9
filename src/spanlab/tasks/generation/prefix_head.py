"""A causal encoder that continues the source with the target.

A sequence is the source, the tokenizer's separator, the target, and the separator again as end token. The tokens of the
source see each other in both directions (`prefix=both`) or, as everywhere in GPT, only what came before them
(`prefix=causal`); the target always looks back.

Shapes: B sequences, N tokens, K predicted tokens, D width, E width of the word table, V vocabulary.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from typing_extensions import override

from spanlab.decoding.config import Decoded, DecodingConfig
from spanlab.decoding.generate import generate_ids
from spanlab.encoder import CausalLMHead, Encoder
from spanlab.objectives.causal_lm import causal_lm_loss
from spanlab.objectives.objective import ObjectiveLoss, token_metrics
from spanlab.tasks.head import Encoded, Head, StandardHead
from spanlab.tasks.sample import SampleBatch
from spanlab.tasks.tensor_batch import TensorBatch


@dataclass(frozen=True, kw_only=True, eq=False)
class NextTokens:
    """The hidden states of the positions before target tokens, and the output embeddings."""

    hidden_KD: Tensor
    word_table_VE: Tensor


class PrefixHead(Head):
    """The language model head of a causal encoder, whose output embeddings are the word table."""

    generates = True

    def __init__(self, encoder: Encoder, decoding: DecodingConfig) -> None:
        super().__init__()
        self.layer = CausalLMHead(encoder.config)
        self.decoding = decoding

    @property
    @override
    def standard(self) -> StandardHead:
        """The head of a causal model in transformers."""
        return StandardHead(kind="clm", layer=self.layer)

    @override
    def count(self, batch: SampleBatch) -> int:
        """The tokens of the targets, end tokens included."""
        return sum(len(sample.targets["next"]) for sample in batch.samples)

    @override
    def forward(self, encoded: Encoded) -> NextTokens:
        """The hidden states before each token of the targets."""
        assert encoded.word_table_VE is not None, "the task accepts only causal encoders"
        batch = encoded.batch
        counts_B = batch.lengths_B.new_tensor([len(sample.targets["next"]) for sample in batch.batch.samples])
        position_K = batch.targets["positions"] + torch.repeat_interleave(batch.starts, counts_B)
        return NextTokens(hidden_KD=encoded.hidden_ND.index_select(0, position_K), word_table_VE=encoded.word_table_VE)

    @override
    def loss(self, states: NextTokens, batch: TensorBatch) -> ObjectiveLoss:
        """Cross-entropy, summed over the tokens of the targets."""
        return causal_lm_loss(self.layer, states.hidden_KD, states.word_table_VE, batch.targets["next"])

    @override
    def metrics(self, loss: ObjectiveLoss) -> dict[str, float]:
        """Mean loss, accuracy and perplexity of a token."""
        return token_metrics(loss)

    @override
    def generate(self, encoder: Encoder, batch: TensorBatch) -> list[Decoded]:
        prompts = [sequence.ids.tolist() for sequence in batch.batch.sequences]
        config = replace(self.decoding, stop_ids=(int(batch.features["end"][0]),))
        return generate_ids(encoder, self.layer, prompts, config, prompts_see_all=batch.prefixes_B is not None)

    @override
    def split(self, decoded: list[Decoded], batch: TensorBatch) -> list[Decoded]:
        return decoded
