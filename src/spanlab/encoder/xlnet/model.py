"""XLNet's encoder: relative positions, a memory of earlier segments, and two streams where tokens are predicted.

`forward` has the face of every `Encoder`, for fine-tuning and inference: padded or packed batches in, hidden states
out, the summary taken from the last token. `read` is what pre-training needs: an order of prediction (who sees whom),
places to predict, memory in and out, text read backwards. Then the query stream is computed for those places alone,
and the last block's content stream not at all, since nobody reads it.

As published, distances are dropped out; here one draw serves all sequences of a batch, so that their projection is
computed once and not once a sequence.

Shapes: B sequences, T tokens of each, N tokens in a row, M memory, S keys (M + T), K predicted places of each sequence,
G directions, R distances, D width, L layers, H heads.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from spanlab.encoder.batch import read_batch
from spanlab.encoder.config import SYSTEMS, EncoderConfig
from spanlab.encoder.embeddings import Embeddings
from spanlab.encoder.layers import Dropout
from spanlab.encoder.model import Encoder, EncoderOutput, init_weights, unpack_attention
from spanlab.encoder.packing import Packing, Run
from spanlab.encoder.xlnet.attention_mask import sight_of_places, sight_of_tokens
from spanlab.encoder.xlnet.block import Streams, TwoStreamBlock
from spanlab.encoder.xlnet.relative_attention import LayerContext, RelativeAttention, distance_table
from spanlab.errors import ConfigError, InputError

_FREE_FIELDS = (
    *("vocab_size", "width", "layers", "heads", "inner_width", "max_positions", "segments", "pad_id"),
    *("activation", "norm_eps", "init_std", "pooler", "max_distance", "memory", "reuse"),
    *("dropout", "attention_dropout", "checkpoint_layers"),
)
"""What may differ between one XLNet and another."""


@dataclass(frozen=True, kw_only=True)
class ReadOutput:
    """What `read` returns."""

    hidden_BTD: Tensor | None
    """The content stream; None where places were predicted, since its last block is not computed then."""
    predicted_BKD: Tensor | None
    """The query stream, where there are places to predict."""
    memory_LBMD: Tensor
    """For the next segment of the same sequences; no gradient goes through it."""


class XLNetEncoder(Encoder):
    """An encoder with the face of `Encoder`; of its parts it shares the embeddings."""

    def __init__(self, config: EncoderConfig) -> None:
        nn.Module.__init__(self)
        _refuse_foreign_options(config)
        self.config = config
        self.embeddings = Embeddings(config)
        self.mask = nn.Parameter(torch.empty(1, 1, config.width))
        """What the query stream begins with at every place."""
        self.layers = nn.ModuleList(TwoStreamBlock(config) for _ in range(config.layers))
        self.pooler = nn.Linear(config.width, config.width) if config.pooler else None
        self.dropout = Dropout(config.dropout)
        self.reset_parameters()

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
        """As `Encoder.forward`; every token sees its whole sequence. Positions are distances and cannot be given."""
        if position_ids is not None:
            raise InputError("an xlnet encoder has no position_ids", fix="leave them out")
        batch = read_batch(
            self.config,
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=None,
            inputs_embeds=inputs_embeds,
            lengths=lengths,
            prefix_lengths=prefix_lengths,
        )
        if attention_mask is not None:
            _refuse_holes(attention_mask != 0)
        packing = batch.packing
        x_ND = self.embeddings(batch.input_ids_N, batch.position_ids_N, None, batch.embeds_NE)
        around = replace(self._everything(packing, batch.segment_ids_N, x_ND.device), want_weights=output_attentions)
        states, weights = [x_ND], []
        for layer in range(self.config.layers):
            head_mask_H = head_mask[layer] if head_mask is not None and head_mask.dim() == 2 else head_mask
            streams = self._run(layer, x_ND, None, None, around, head_mask_H)
            assert streams.content_ND is not None
            x_ND = streams.content_ND
            states = [*states, x_ND] if output_hidden_states else [x_ND]
            weights.append(streams.weights)
        x_ND = self.dropout(x_ND)
        return EncoderOutput(
            hidden=packing.restore(x_ND),
            pooled=self.pool(x_ND, packing),
            hidden_states=tuple(packing.restore(state) for state in states) if output_hidden_states else None,
            attentions=tuple(unpack_attention(layer, packing) for layer in weights) if output_attentions else None,
        )

    def read(
        self,
        input_ids_BT: Tensor,
        *,
        visible_BTT: Tensor | None = None,
        places_BK: Tensor | None = None,
        segment_ids_BT: Tensor | None = None,
        memory_LBMD: Tensor | None = None,
        backward_rows: int = 0,
    ) -> ReadOutput:
        """Encode the next segment of each sequence, or predict places of it.

        Args:
            input_ids_BT: true tokens, nothing masked.
            visible_BTT: true where token i may know token j before it is predicted itself; none means everywhere. In
                the content stream every token also sees itself. Memory is always seen.
            places_BK: the places to predict.
            segment_ids_BT: segments; memory counts as segment 0.
            memory_LBMD: what `read` returned for the segment before.
            backward_rows: so many sequences, the last ones, are given from their end to their beginning.
        """
        (batch, tokens), device = input_ids_BT.shape, input_ids_BT.device
        past = 0 if memory_LBMD is None else memory_LBMD.shape[2]
        shared: dict[str, Any] = {"segment_ids_BT": segment_ids_BT, "past": past, "backward_rows": backward_rows}
        sees_all = torch.ones((), dtype=torch.bool, device=device).expand(batch, tokens, tokens)
        visible = sees_all if visible_BTT is None else visible_BTT
        around = LayerContext(
            runs=(Run(batch, tokens),),
            distances_GRD=self._distances(past + tokens, tokens, device, both_ways=backward_rows > 0),
            content=(sight_of_tokens(tokens, visible_BTT=visible_BTT, **shared),),
            query=None if places_BK is None else sight_of_places(tokens, places_BK, visible_BTT=visible, **shared),
        )
        x_ND = self.embeddings(input_ids_BT.flatten(), input_ids_BT.new_zeros(()))
        query = None if places_BK is None else self.dropout(self.mask.expand(batch, places_BK.shape[1], -1))
        streams = Streams(x_ND, query)
        remembered = []
        for layer in range(self.config.layers):
            memory = None if memory_LBMD is None else memory_LBMD[layer]
            assert streams.content_ND is not None
            remembered.append(self._remember(streams.content_ND.detach().view(batch, tokens, -1), memory))
            wanted = query is None or layer + 1 < self.config.layers
            streams = self._run(layer, streams.content_ND, streams.query_BKD, memory, around, None, wanted)
        content, predicted = streams.content_ND, streams.query_BKD
        return ReadOutput(
            hidden_BTD=None if content is None else self.dropout(content).view(batch, tokens, -1),
            predicted_BKD=None if predicted is None else self.dropout(predicted),
            memory_LBMD=torch.stack(remembered),
        )

    def pool(self, hidden_ND: Tensor, packing: Packing) -> Tensor | None:
        """(B, D): the last token of each sequence through a dense tanh layer."""
        if self.pooler is None:
            return None
        return torch.tanh(self.pooler(hidden_ND.index_select(0, packing.last_tokens(hidden_ND.device))))

    def reset_parameters(self, spare: nn.Module | None = None) -> None:
        """Draw all weights anew: normal with the config's deviation, norms 1, biases of layers 0."""
        for module in self.modules():
            init_weights(module, self.config.init_std)
            if isinstance(module, RelativeAttention):
                for bias in (module.content_bias, module.position_bias, module.segment_bias, module.segment):
                    nn.init.normal_(bias, std=self.config.init_std)
        nn.init.normal_(self.mask, std=self.config.init_std)

    def _run(
        self,
        layer: int,
        content_ND: Tensor,
        query_BKD: Tensor | None,
        memory_BMD: Tensor | None,
        around: LayerContext,
        head_mask_H: Tensor | None,
        want_content: bool = True,
    ) -> Streams:
        block = self.layers[layer]
        given = (content_ND, query_BKD, memory_BMD, around, head_mask_H, want_content)
        if self.config.checkpoint_layers and self.training and torch.is_grad_enabled():
            return checkpoint(block, *given, use_reentrant=False)  # type: ignore[no-any-return]
        return block(*given)  # type: ignore[no-any-return]

    def _remember(self, content_BTD: Tensor, memory_BMD: Tensor | None) -> Tensor:
        """(B, M, D): the memory that the next segment sees."""
        fresh_BTD = content_BTD[:, : self.config.reuse]
        whole = fresh_BTD if memory_BMD is None else torch.cat([memory_BMD.to(fresh_BTD.dtype), fresh_BTD], dim=1)
        return whole if self.config.memory is None else whole[:, -self.config.memory :]

    def _distances(self, keys: int, queries: int, device: torch.device, *, both_ways: bool = False) -> Tensor:
        tables = [
            distance_table(
                keys,
                queries,
                self.config.width,
                max_distance=self.config.max_distance,
                device=device,
                backwards=backwards,
            )
            for backwards in ([False, True] if both_ways else [False])
        ]
        return self.dropout(torch.stack(tables).to(self.mask.dtype))  # type: ignore[no-any-return]

    def _everything(self, packing: Packing, segment_ids_N: Tensor | None, device: torch.device) -> LayerContext:
        """Of a batch in which every token sees its whole sequence."""
        runs = packing.runs
        longest = max(run.length for run in runs)
        segments: list[Tensor | None] = [None] * len(runs)
        if segment_ids_N is not None:
            parts = torch.split(segment_ids_N, [run.tokens for run in runs])
            segments = [part.view(run.count, run.length) for part, run in zip(parts, runs, strict=True)]
        return LayerContext(
            runs=runs,
            distances_GRD=self._distances(longest, longest, device),
            content=tuple(
                sight_of_tokens(run.length, segment_ids_BT=segment) for run, segment in zip(runs, segments, strict=True)
            ),
        )


def build_encoder(config: EncoderConfig) -> Encoder:
    """A new encoder of whichever architecture."""
    return XLNetEncoder(config) if config.architecture == "xlnet" else Encoder(config)


def _refuse_foreign_options(config: EncoderConfig) -> None:
    expected = replace(EncoderConfig(**SYSTEMS["xlnet"]), **{name: getattr(config, name) for name in _FREE_FIELDS})
    for field in fields(config):
        found, only = getattr(config, field.name), getattr(expected, field.name)
        if found != only:
            raise ConfigError(f"'{field.name}' is {found!r}; an xlnet encoder only has {only!r}")


def _refuse_holes(mask_BT: Tensor) -> None:
    """Padding between tokens would change the distances; at either end it changes nothing."""
    begins_BT = mask_BT[:, 1:] & ~mask_BT[:, :-1]
    holes_B = begins_BT.sum(dim=1) + mask_BT[:, 0].long() > 1
    if bool(holes_B.any()):
        row = int(holes_B.nonzero()[0])
        raise InputError(f"sequence {row} of the batch has padding between its tokens", fix="pad at one end")
