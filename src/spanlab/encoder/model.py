"""The encoder: token ids in, hidden states out, for every architecture of the family.

A batch comes padded, `input_ids` (B, T) with an `attention_mask`, or packed, `input_ids` (N,) with `lengths` (B,).
Both run through the same code, on one flat token axis without padding, and give the same numbers.

Shapes: B sequences, T padded length, N tokens, D width, E width of the embedding tables, H heads, L layers.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from spanlab.encoder.attention import LayerContext
from spanlab.encoder.batch import Batch, read_batch
from spanlab.encoder.block import Block
from spanlab.encoder.cache import KeyValueCache, LayerCache, Step
from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.embeddings import Embeddings
from spanlab.encoder.layers import build_norm
from spanlab.encoder.packing import Packing, pack_lengths
from spanlab.encoder.positions import rotary_angles
from spanlab.errors import ConfigError


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


class Encoder(nn.Module):
    """A BERT-family encoder, put together from the parts its config names."""

    def __init__(self, config: EncoderConfig, embeddings: Embeddings | None = None) -> None:
        """`embeddings` are another encoder's, to share them (ELECTRA's generator and discriminator)."""
        super().__init__()
        if config.positions == "relative":
            raise ConfigError(
                "this is not an encoder for relative positions", fix="take XLNetEncoder, or build_encoder"
            )
        self.config = config
        self.embeddings = embeddings if embeddings is not None else Embeddings(config)
        widen = config.table_width != config.width
        self.projection = nn.Linear(config.table_width, config.width) if widen else None
        self.layers = nn.ModuleList(
            nn.ModuleList(Block(config) for _ in range(config.inner_layers)) for _ in range(config.groups)
        )
        self.final_norm = build_norm(config.norm, config.width, config.norm_eps) if config.final_norm else None
        self.pooler = nn.Linear(config.width, config.width) if config.pooler else None
        self.reset_parameters(spare=embeddings)

    @classmethod
    def from_pretrained(cls, folder_or_id: str | Path, *, revision: str | None = None) -> "Encoder":
        """The encoder in a model folder, a run folder or a Hugging Face repository."""
        from spanlab.encoder.pretrained import load_model

        return load_model(folder_or_id, revision=revision).encoder

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a model folder that `from_pretrained` and transformers read."""
        from spanlab.encoder.pretrained import save_model

        save_model(folder, self)

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
            attention_mask: (B, T), nonzero where there is a token; none means everywhere.
            token_type_ids: segments, shaped like `input_ids`.
            position_ids: shaped like `input_ids`; by default each sequence counts from its start.
            inputs_embeds: (B, T, E) or (N, E) in place of `input_ids`.
            head_mask: (H,) or (L, H), a factor for every attention head.
            lengths: (B,), makes the batch a packed one: its sequences lie one after the other.
            output_attentions: also return the attention weights (leaves the fast path).
            output_hidden_states: also return the output of every layer.
            prefix_lengths: (B,) how many first tokens of each sequence see each other, in a causal encoder.
        """
        batch = read_batch(
            self.config,
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            lengths=lengths,
            prefix_lengths=prefix_lengths,
        )
        x_ND = self.embeddings(batch.input_ids_N, batch.position_ids_N, batch.segment_ids_N, batch.embeds_NE)
        if self.projection is not None:
            x_ND = self.projection(x_ND)
        states, weights = self._run_layers(x_ND, batch, head_mask, output_attentions, output_hidden_states)
        packing = batch.packing
        return EncoderOutput(
            hidden=packing.restore(states[-1]),
            pooled=self.pool(states[-1], packing),
            hidden_states=tuple(packing.restore(state) for state in states) if output_hidden_states else None,
            attentions=tuple(unpack_attention(layer, packing) for layer in weights) if output_attentions else None,
        )

    @torch.no_grad()
    def extend(
        self, cache: KeyValueCache, input_ids_N: Tensor, lengths_B: Tensor, prefix_lengths_B: Tensor | None = None
    ) -> Tensor:
        """(N, D) the hidden states of new tokens, packed, that go on with the sequences of a cache, which keeps them.

        Read at once or piece by piece, a sequence has the same hidden states; a prefix must be read at once, as the
        first. For inference: no gradient goes through.
        """
        packing = pack_lengths(len(input_ids_N), lengths_B)
        step = cache.plan(packing)
        places_N = step.places_N
        if packing.source_N is not None:
            places_N = torch.empty_like(places_N).index_copy_(0, packing.source_N, places_N)
        batch = read_batch(
            self.config,
            input_ids=input_ids_N,
            attention_mask=None,
            token_type_ids=None,
            position_ids=places_N + self.config.position_offset,
            inputs_embeds=None,
            lengths=lengths_B,
            prefix_lengths=prefix_lengths_B,
        )
        assert batch.prefixes is None or step.fresh, "what was read before did not see the prefix"
        x_ND = self.embeddings(batch.input_ids_N, batch.position_ids_N)
        if self.projection is not None:
            x_ND = self.projection(x_ND)
        states, _ = self._run_layers(x_ND, batch, None, want_weights=False, keep_states=False, kept=(cache, step))
        cache.advance(step)
        return packing.restore(states[-1])

    @property
    def word_table(self) -> Tensor:
        """(V, E) the word embeddings, which the heads use as their output matrix."""
        return self.embeddings.word.weight

    def replace_word_table(self, table_VE: Tensor, *, pad_id: int | None) -> None:
        """Take another vocabulary: (V, E) its embeddings."""
        size, width = table_VE.shape
        self.embeddings.word = nn.Embedding(size, width, _weight=table_VE)
        self.config = replace(self.config, vocab_size=size, pad_id=pad_id)

    def pool(self, hidden_ND: Tensor, packing: Packing) -> Tensor | None:
        """(B, D): the first token of each sequence through a dense tanh layer."""
        if self.pooler is None:
            return None
        return torch.tanh(self.pooler(hidden_ND.index_select(0, packing.first_tokens(hidden_ND.device))))

    def _run_layers(
        self,
        x_ND: Tensor,
        batch: Batch,
        head_mask: Tensor | None,
        want_weights: bool,
        keep_states: bool,
        kept: tuple[KeyValueCache, Step] | None = None,
    ) -> tuple[list[Tensor], list[tuple[Tensor, ...]]]:
        config = self.config
        rotary = rotary_angles(batch.position_ids_N, config.head_width) if config.positions == "rotary" else None
        around = LayerContext(batch.packing.runs, rotary, want_weights, batch.prefixes)
        states, all_weights = [x_ND], []
        parts = iter(zip(kept[0].keys, kept[0].values, strict=True)) if kept is not None else iter(())
        for layer in range(config.layers):
            head_mask_H = head_mask[layer] if head_mask is not None and head_mask.dim() == 2 else head_mask
            skip_chance = config.stochastic_depth * (layer + 1) / config.layers
            for block in self.layers[layer * config.groups // config.layers]:  # type: ignore[attr-defined]
                if kept is not None:
                    around = replace(around, cache=LayerCache(*next(parts), kept[1]))
                if config.checkpoint_layers and self.training and torch.is_grad_enabled():
                    x_ND, weights = checkpoint(block, x_ND, around, head_mask_H, skip_chance, use_reentrant=False)
                else:
                    x_ND, weights = block(x_ND, around, head_mask_H, skip_chance)
                states = [*states, x_ND] if keep_states else [x_ND]
                if want_weights:
                    all_weights.append(weights)
        if self.final_norm is not None:
            states[-1] = self.final_norm(states[-1])
        return states, all_weights

    def reset_parameters(self, spare: nn.Module | None = None) -> None:
        """Draw all weights anew: normal with the config's deviation, norms 1, biases 0; `spare` is left alone."""
        spared = set(spare.modules()) if spare is not None else set()
        for module in self.modules():
            if module not in spared:
                init_weights(module, self.config.init_std)


def init_weights(module: nn.Module, std: float) -> None:
    """BERT's initialisation of one layer; norms keep theirs."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=std)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def unpack_attention(weights: tuple[Tensor, ...], packing: Packing) -> Tensor:
    """The weights of each run, (C, H, t, t), as (B, H, T, T) in the user's order; zero where there is padding."""
    lengths = packing.sequence_lengths
    padded = len(packing.shape) == 2
    width = packing.shape[1] if padded else max(lengths)
    order = range(len(lengths)) if packing.order_B is None else packing.order_B.tolist()
    columns_N = None if packing.source_N is None or not padded else packing.source_N % width
    out_BHTT = weights[0].new_zeros(len(lengths), weights[0].shape[1], width, width)
    start = 0
    for place, sequence_HTT in zip(order, (one for run in weights for one in run), strict=True):
        length = sequence_HTT.shape[-1]
        columns = torch.arange(length) if columns_N is None else columns_N[start : start + length]
        out_BHTT[place, :, columns[:, None], columns] = sequence_HTT
        start += length
    return out_BHTT
