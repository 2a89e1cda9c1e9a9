"""The vector that stands for a whole sequence.

Shapes: B sequences, N tokens, D width.
"""

from dataclasses import replace

from torch import Tensor, nn

from spanlab.encoder import Encoder, EncoderConfig
from spanlab.encoder.model import init_weights
from spanlab.encoder.task_heads import POOLED
from spanlab.tasks.head import Encoded

_SUMMARY_LAST: tuple[str, ...] = ("xlnet",)
"""Architectures whose frame has its first-token sign at the end."""


def pools_last_token(config: EncoderConfig) -> bool:
    """Whether the last token is the one that has seen all others."""
    return config.causal or config.architecture in _SUMMARY_LAST


def summary_tokens(encoded: Encoded, *, last: bool) -> Tensor:
    """(B, D) the hidden state of the first token of each sequence, or of the last."""
    batch = encoded.batch
    places_B = batch.starts + batch.lengths_B - 1 if last else batch.starts
    return encoded.hidden_ND.index_select(0, places_B)


def add_pooler(encoder: Encoder) -> None:
    """Give an encoder of a family with poolers a new one, where its checkpoint had none."""
    config = encoder.config
    if config.architecture in POOLED and not config.pooler and hasattr(encoder, "embeddings"):
        encoder.pooler = nn.Linear(config.width, config.width)
        init_weights(encoder.pooler, config.init_std)
        encoder.config = replace(config, pooler=True)
