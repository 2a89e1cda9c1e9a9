"""The encoder interface: token ids in, hidden states out, the same for every architecture.

A batch is padded, `input_ids` (B, T) with an `attention_mask`, or packed, `input_ids` (N,) with `lengths` (B,); the
hidden states are the same either way. Tasks and objectives depend on this interface alone.

Shapes: B sequences, T padded length, N tokens, D width, E width of the embedding tables, H heads, L layers.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.elmo.config import ElmoConfig
from spanlab.encoder.flops import flops_per_token
from spanlab.encoder.layers import init_weights
from spanlab.encoder.packing import Packing
from spanlab.errors import InputError


@dataclass(frozen=True)
class EncoderOutput:
    """What an encoder returns; padded positions are zero."""

    hidden: Tensor
    """(B, T, D) for a padded batch, (N, D) for a packed one."""
    pooled: Tensor | None = None
    """(B, D), None without a pooler."""
    hidden_states: tuple[Tensor, ...] | None = None
    """The embeddings and the output of every block, L + 1 tensors shaped like `hidden`, if asked for."""
    attentions: tuple[Tensor, ...] | None = None
    """The attention weights of every block, each (B, H, T, T), if asked for."""


class Encoder(nn.Module, ABC):
    """The interface of all encoders.

    `Encoder.from_pretrained` and `Encoder.from_config` return an encoder of whichever class the architecture has.
    """

    config: EncoderConfig
    pooler: nn.Module | None
    """A dense layer, followed by tanh, on the first token of a sequence (XLNet: the last)."""

    @classmethod
    def from_pretrained(cls, folder_or_id: str | Path, *, revision: str | None = None) -> Self:
        """The encoder in a model folder, a run folder, the box or a Hugging Face repository."""
        from spanlab.encoder.pretrained import load_model

        return cls._checked(load_model(folder_or_id, revision=revision).encoder, folder_or_id)

    @classmethod
    def from_config(cls, config: EncoderConfig | ElmoConfig) -> Self:
        """A new encoder with random weights."""
        from spanlab.encoder.architectures import build_encoder

        return cls._checked(build_encoder(config))

    @classmethod
    def _checked(cls, encoder: "Encoder", source: str | Path | None = None) -> Self:
        if not isinstance(encoder, cls):
            raise InputError(f"a {encoder.config.architecture} encoder; expected {cls.__name__}", path=source)
        return encoder

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a model folder that `from_pretrained` and transformers read."""
        from spanlab.encoder.pretrained import save_model

        save_model(folder, self)

    @abstractmethod
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        head_mask: Tensor | None = None,
        lengths: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        prefix_lengths: Tensor | None = None,
    ) -> EncoderOutput:
        """Encode a padded or a packed batch.

        Args:
            input_ids: (B, T) or, packed, (N,).
            attention_mask: (B, T), nonzero at tokens, zero at padding; None: no padding.
            token_type_ids: segments, shaped like `input_ids`.
            position_ids: shaped like `input_ids`; by default each sequence counts from its start.
            inputs_embeds: (B, T, E) or (N, E) in place of `input_ids`.
            head_mask: (H,) or (L, H), a factor for every attention head.
            lengths: (B,), makes the batch a packed one: its sequences lie one after the other.
            output_attentions: also return the attention weights (leaves the fast path).
            output_hidden_states: also return the output of every layer.
            prefix_lengths: (B,) how many first tokens of each sequence see each other, in a causal encoder.
        """

    @property
    @abstractmethod
    def word_table(self) -> Tensor:
        """(V, E) the word embeddings, which the heads use as their output matrix."""

    @abstractmethod
    def replace_word_table(self, table_VE: Tensor, *, pad_id: int | None) -> None:
        """Replace the vocabulary: (V, E) its embeddings."""

    @property
    def full_config(self) -> EncoderConfig | ElmoConfig:
        """The config that `build_encoder` makes this encoder from: `config`, or ELMo's own."""
        return self.config

    def layer_stack(self) -> list[nn.Module]:
        """The embeddings, then every group of layers with separate weights; empty if they are unknown."""
        return []

    def add_pooler(self) -> None:
        """Give an encoder without a pooler a new one."""
        self.pooler = nn.Linear(self.config.width, self.config.width)
        init_weights(self.pooler, self.config.init_std)
        self.config = replace(self.config, pooler=True)

    def flops_per_token(self, length: int) -> int:
        """FLOPs of a forward pass per token of a sequence of `length` tokens."""
        return flops_per_token(self.config, length)


def unpack_attention(weights: tuple[Tensor, ...], packing: Packing) -> Tensor:
    """The weights of each run, (C, H, t, t), as (B, H, T, T) in the caller's order; zero at padding."""
    lengths = packing.sequence_lengths
    padded = len(packing.shape) == 2
    width = packing.shape[1] if padded else max(lengths)
    order = range(len(lengths)) if packing.order_B is None else packing.order_B.tolist()
    columns_N = None if packing.source_N is None or not padded else packing.source_N % width
    out_BHTT = weights[0].new_zeros(len(lengths), weights[0].shape[1], width, width)
    start = 0
    for row, weights_HTT in zip(order, (sequence for run in weights for sequence in run), strict=True):
        length = weights_HTT.shape[-1]
        columns = torch.arange(length) if columns_N is None else columns_N[start : start + length]
        out_BHTT[row, :, columns[:, None], columns] = weights_HTT
        start += length
    return out_BHTT
