"""The head of generation: the next token of the target while it is trained, a search for the whole of it in answers.

In training every token of the target, and the sign that ends it, is predicted from what stands before it; the source
has no loss. In prediction the encoder goes on with the source, token by token, with keys and values kept.

Shapes: N tokens, K predicted tokens, D width, V vocabulary, E width of the word table.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from spanlab.decoding.generate import generate_ids
from spanlab.decoding.sampling import Decoded, DecodingConfig
from spanlab.encoder import CausalLMHead, Encoder
from spanlab.objectives.causal_lm import causal_lm_loss
from spanlab.objectives.objective import ObjectiveLoss, token_metrics
from spanlab.tasks.head import Encoded, StandardHead
from spanlab.tasks.sample import SampleBatch, TensorBatch


@dataclass(frozen=True, kw_only=True, eq=False)
class NextTokens:
    """What the next tokens are predicted from."""

    hidden_KD: Tensor
    word_table_VE: Tensor


class GenerationHead(nn.Module):
    """GPT's own output: the word table."""

    uses_pooler = False

    def __init__(self, encoder: Encoder, decoding: DecodingConfig) -> None:
        super().__init__()
        self.layer = CausalLMHead(encoder.config)
        self.decoding = decoding

    @property
    def standard(self) -> StandardHead:
        """The head of a causal model in transformers."""
        return StandardHead(kind="clm", layer=self.layer)

    def count(self, batch: SampleBatch) -> int:
        """The tokens of the targets, with those that end them."""
        return sum(len(sample.targets["next"]) for sample in batch.samples)

    def forward(self, encoded: Encoded) -> NextTokens:
        """The hidden states before each token of the targets."""
        assert encoded.word_table_VE is not None, "the task takes causal encoders alone"
        batch = encoded.batch
        counts_B = batch.lengths_B.new_tensor([len(sample.targets["next"]) for sample in batch.batch.samples])
        place_K = batch.targets["places"] + torch.repeat_interleave(batch.starts, counts_B)
        return NextTokens(hidden_KD=encoded.hidden_ND.index_select(0, place_K), word_table_VE=encoded.word_table_VE)

    def loss(self, found: NextTokens, batch: TensorBatch) -> ObjectiveLoss:
        """Cross-entropy, summed over the tokens of the targets."""
        return causal_lm_loss(self.layer, found.hidden_KD, found.word_table_VE, batch.targets["next"])

    def metrics(self, loss: ObjectiveLoss) -> dict[str, float]:
        """Mean loss, accuracy and perplexity of a token."""
        return token_metrics(loss)

    def answer(self, encoder: Encoder, batch: TensorBatch) -> list[Decoded]:
        """What follows each source."""
        prompts = [sequence.ids.tolist() for sequence in batch.batch.sequences]
        config = replace(self.decoding, stop_ids=(int(batch.features["end"][0]),))
        return generate_ids(encoder, self.layer, prompts, config, prompts_see_all=batch.prefixes_B is not None)

    def split(self, found: list[Decoded], batch: TensorBatch) -> list[Decoded]:
        """One a sample already."""
        return found
