"""The Transformer encoder of BERT, RoBERTa, ALBERT, ELECTRA, ModernBERT, GPT and the original, built from its config.

Padded and packed batches run through the same code, on one flat token axis without padding.

Shapes: B sequences, T padded length, N tokens, D width, E width of the embedding tables, H heads, L layers.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from typing_extensions import override

from spanlab.encoder.attention import LayerContext
from spanlab.encoder.batch import Batch, read_batch
from spanlab.encoder.block import Block
from spanlab.encoder.cache import CacheStep, KeyValueCache, LayerCache
from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.embeddings import Embeddings
from spanlab.encoder.layers import build_norm, init_weights
from spanlab.encoder.model import Encoder, EncoderOutput, unpack_attention
from spanlab.encoder.packing import Packing, pack_lengths
from spanlab.encoder.positions import RotaryAngles, rotary_angles
from spanlab.errors import ConfigError


class TransformerEncoder(Encoder):
    """A BERT-family encoder."""

    def __init__(self, config: EncoderConfig, embeddings: Embeddings | None = None) -> None:
        """`embeddings` are another encoder's, to share them (ELECTRA's generator and discriminator)."""
        super().__init__()
        if config.positions == "relative":
            raise ConfigError(
                "a TransformerEncoder has no relative positions", fix="use XLNetEncoder, or build_encoder"
            )
        self.config = config
        self.embeddings = embeddings if embeddings is not None else Embeddings(config)
        widen = config.table_width != config.width
        self.projection = nn.Linear(config.table_width, config.width) if widen else None
        self.layers = nn.ModuleList(
            nn.ModuleList(Block(config, layer) for _ in range(config.inner_layers)) for layer in range(config.groups)
        )
        self.final_norm = (
            build_norm(config.norm, config.width, config.norm_eps, bias=config.norm_bias) if config.final_norm else None
        )
        self.pooler = nn.Linear(config.width, config.width) if config.pooler else None
        shared = set(embeddings.modules()) if embeddings is not None else set()
        for module in self.modules():
            if module not in shared:
                init_weights(module, config.init_std)
        self._init_residual_layers()

    def _init_residual_layers(self) -> None:
        """Shrink the initial weights of the layers that add to the residual stream, as the config says."""
        if self.config.residual_init == "same":
            return
        scale = 0.0 if self.config.residual_init == "zero" else (2 * self.config.layers) ** -0.5
        for module in self.modules():
            if isinstance(module, Block):
                for linear in (module.attention.output, module.feed_forward.down):
                    nn.init.normal_(linear.weight, std=self.config.init_std * scale)

    @override
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
            pooled=self._pool(states[-1], packing),
            hidden_states=tuple(packing.restore(state) for state in states) if output_hidden_states else None,
            attentions=tuple(unpack_attention(layer, packing) for layer in weights) if output_attentions else None,
        )

    @torch.no_grad()
    def extend(
        self, cache: KeyValueCache, input_ids_N: Tensor, lengths_B: Tensor, prefix_lengths_B: Tensor | None = None
    ) -> Tensor:
        """(N, D) the hidden states of new tokens, packed, that continue the sequences of a cache and are added to it.

        Read at once or piece by piece, a sequence has the same hidden states; a prefix must be read at once, in the
        first piece. For inference: no gradient goes through.
        """
        packing = pack_lengths(len(input_ids_N), lengths_B)
        step = cache.plan(packing)
        positions_N = step.positions_N
        if packing.source_N is not None:
            positions_N = torch.empty_like(positions_N).index_copy_(0, packing.source_N, positions_N)
        batch = read_batch(
            self.config,
            input_ids=input_ids_N,
            attention_mask=None,
            token_type_ids=None,
            position_ids=positions_N + self.config.position_offset,
            inputs_embeds=None,
            lengths=lengths_B,
            prefix_lengths=prefix_lengths_B,
        )
        assert batch.prefixes is None or step.is_first, "earlier tokens did not see the prefix"
        x_ND = self.embeddings(batch.input_ids_N, batch.position_ids_N)
        if self.projection is not None:
            x_ND = self.projection(x_ND)
        states, _ = self._run_layers(x_ND, batch, None, need_weights=False, keep_states=False, cached=(cache, step))
        cache.advance(step)
        return packing.restore(states[-1])

    @property
    @override
    def word_table(self) -> Tensor:
        return self.embeddings.word.weight

    @override
    def replace_word_table(self, table_VE: Tensor, *, pad_id: int | None) -> None:
        size, width = table_VE.shape
        self.embeddings.word = nn.Embedding(size, width, _weight=table_VE)
        self.config = replace(self.config, vocab_size=size, pad_id=pad_id)

    @override
    def layer_stack(self) -> list[nn.Module]:
        inputs = [self.embeddings] if self.projection is None else [self.embeddings, self.projection]
        return [nn.ModuleList(inputs), *self.layers]

    def _pool(self, hidden_ND: Tensor, packing: Packing) -> Tensor | None:
        """(B, D): the first token of each sequence, or of a causal encoder the last, through a dense tanh layer."""
        if self.pooler is None:
            return None
        tokens = packing.last_tokens if self.config.causal else packing.first_tokens  # the first has seen only itself
        return torch.tanh(self.pooler(hidden_ND.index_select(0, tokens(hidden_ND.device))))

    def _rotary(self, position_ids_N: Tensor) -> tuple[RotaryAngles | None, RotaryAngles | None]:
        """The angles for layers with global and for layers with local attention; None where there are none."""
        config = self.config
        if config.positions != "rotary":
            return None, None
        angles = rotary_angles(position_ids_N, config.head_width, config.rotary_base)
        if config.local_rotary_base in {None, config.rotary_base}:
            return angles, angles
        assert config.local_rotary_base is not None
        return angles, rotary_angles(position_ids_N, config.head_width, config.local_rotary_base)

    def _run_layers(
        self,
        x_ND: Tensor,
        batch: Batch,
        head_mask: Tensor | None,
        need_weights: bool,
        keep_states: bool,
        cached: tuple[KeyValueCache, CacheStep] | None = None,
    ) -> tuple[list[Tensor], list[tuple[Tensor, ...]]]:
        """The output of every block, or with `keep_states` off of the last alone, and the attention weights."""
        config = self.config
        context = LayerContext(batch.packing.runs, *self._rotary(batch.position_ids_N), need_weights, batch.prefixes)
        states, all_weights = [x_ND], []
        cached_blocks = iter(zip(cached[0].keys, cached[0].values, strict=True)) if cached is not None else iter(())
        for layer in range(config.layers):
            head_mask_H = head_mask[layer] if head_mask is not None and head_mask.dim() == 2 else head_mask
            skip_chance = config.stochastic_depth * (layer + 1) / config.layers
            for block in self.layers[layer * config.groups // config.layers]:  # type: ignore[attr-defined]
                if cached is not None:
                    context = replace(context, cache=LayerCache(*next(cached_blocks), cached[1]))
                if config.checkpoint_layers and self.training and torch.is_grad_enabled():
                    x_ND, weights = checkpoint(block, x_ND, context, head_mask_H, skip_chance, use_reentrant=False)
                else:
                    x_ND, weights = block(x_ND, context, head_mask_H, skip_chance)
                states = [*states, x_ND] if keep_states else [x_ND]
                if need_weights:
                    all_weights.append(weights)
        if self.final_norm is not None:
            states[-1] = self.final_norm(states[-1])
        return states, all_weights
