"""XLNet's encoder: relative positions, a memory of earlier segments, and two streams where tokens are predicted.

`forward` is that of every `Encoder`, for fine-tuning and inference. `read` is for pre-training: an order of prediction,
positions to predict, memory in and out, text read backwards. The query stream is computed for the predicted positions
alone, and the last block's content stream only where nothing is predicted, since nothing else reads it.

As published, distances have dropout; here one mask serves all sequences of a batch, so that the distances are projected
once and not once a sequence.

Shapes: B sequences, T tokens of each, N tokens in a row, M memory, S keys (M + T), K predicted positions a sequence,
G directions, R distances, D width, L layers, H heads.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from typing_extensions import override

from spanlab.encoder.architectures.xlnet import FIXED_FIELDS, FREE_FIELDS
from spanlab.encoder.batch import read_batch
from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.embeddings import Embeddings
from spanlab.encoder.layers import Dropout, init_weights
from spanlab.encoder.model import Encoder, EncoderOutput, unpack_attention
from spanlab.encoder.packing import Packing, Run
from spanlab.encoder.xlnet.attention_mask import content_mask, query_mask
from spanlab.encoder.xlnet.block import Streams, TwoStreamBlock
from spanlab.encoder.xlnet.relative_attention import RelativeAttention, RelativeContext, distance_table
from spanlab.errors import ConfigError, InputError


@dataclass(frozen=True, kw_only=True)
class ReadOutput:
    """The output of `XLNetEncoder.read`."""

    hidden_BTD: Tensor | None
    """The content stream; None where positions are predicted, since its last block is not computed then."""
    predicted_BKD: Tensor | None
    """The query stream, where positions are predicted."""
    memory_LBMD: Tensor
    """For the next segment of the same sequences; no gradient goes through it."""


class XLNetEncoder(Encoder):
    """Transformer-XL's recurrence and XLNet's two streams."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        _check_config(config)
        self.config = config
        self.embeddings = Embeddings(config)
        self.mask = nn.Parameter(torch.empty(1, 1, config.width))
        """The input of the query stream at every position."""
        self.layers = nn.ModuleList(TwoStreamBlock(config) for _ in range(config.layers))
        self.pooler = nn.Linear(config.width, config.width) if config.pooler else None
        self.dropout = Dropout(config.dropout)
        self._init_parameters()

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
        """Every token attends to its whole sequence. Positions are distances, so `position_ids` is an error."""
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
            _check_padding(attention_mask != 0)
        packing = batch.packing
        x_ND = self.embeddings(batch.input_ids_N, batch.position_ids_N, None, batch.embeds_NE)
        context = replace(self._full_context(packing, batch.segment_ids_N, x_ND.device), need_weights=output_attentions)
        states, weights = [x_ND], []
        for layer in range(self.config.layers):
            head_mask_H = head_mask[layer] if head_mask is not None and head_mask.dim() == 2 else head_mask
            streams = self._run(layer, x_ND, None, None, context, head_mask_H)
            assert streams.content_ND is not None
            x_ND = streams.content_ND
            states = [*states, x_ND] if output_hidden_states else [x_ND]
            weights.append(streams.weights)
        x_ND = self.dropout(x_ND)
        return EncoderOutput(
            hidden=packing.restore(x_ND),
            pooled=self._pool(x_ND, packing),
            hidden_states=tuple(packing.restore(state) for state in states) if output_hidden_states else None,
            attentions=tuple(unpack_attention(layer, packing) for layer in weights) if output_attentions else None,
        )

    def read(
        self,
        input_ids_BT: Tensor,
        *,
        visible_BTT: Tensor | None = None,
        positions_BK: Tensor | None = None,
        segment_ids_BT: Tensor | None = None,
        memory_LBMD: Tensor | None = None,
        backward_rows: int = 0,
    ) -> ReadOutput:
        """Encode the next segment of each sequence, or predict positions of it.

        Args:
            input_ids_BT: true tokens, nothing masked.
            visible_BTT: true where token i attends to token j; none means everywhere. In the content stream every token
                also attends to itself. Memory is always visible.
            positions_BK: the positions to predict.
            segment_ids_BT: segments; memory counts as segment 0.
            memory_LBMD: what `read` returned for the segment before.
            backward_rows: how many sequences, the last of the batch, are given in reverse.
        """
        (batch, tokens), device = input_ids_BT.shape, input_ids_BT.device
        past = 0 if memory_LBMD is None else memory_LBMD.shape[2]
        shared: dict[str, Any] = {"segment_ids_BT": segment_ids_BT, "past": past, "backward_rows": backward_rows}
        all_visible = torch.ones((), dtype=torch.bool, device=device).expand(batch, tokens, tokens)
        visible = all_visible if visible_BTT is None else visible_BTT
        context = RelativeContext(
            runs=(Run(batch, tokens),),
            distances_GRD=self._distances(past + tokens, tokens, device, both_directions=backward_rows > 0),
            content=(content_mask(tokens, visible_BTT=visible_BTT, **shared),),
            query=None if positions_BK is None else query_mask(tokens, positions_BK, visible_BTT=visible, **shared),
        )
        x_ND = self.embeddings(input_ids_BT.flatten(), input_ids_BT.new_zeros(()))
        query = None if positions_BK is None else self.dropout(self.mask.expand(batch, positions_BK.shape[1], -1))
        streams = Streams(x_ND, query)
        memories = []
        for layer in range(self.config.layers):
            memory = None if memory_LBMD is None else memory_LBMD[layer]
            assert streams.content_ND is not None
            memories.append(self._next_memory(streams.content_ND.detach().view(batch, tokens, -1), memory))
            need_content = query is None or layer + 1 < self.config.layers
            streams = self._run(layer, streams.content_ND, streams.query_BKD, memory, context, None, need_content)
        content, predicted = streams.content_ND, streams.query_BKD
        return ReadOutput(
            hidden_BTD=None if content is None else self.dropout(content).view(batch, tokens, -1),
            predicted_BKD=None if predicted is None else self.dropout(predicted),
            memory_LBMD=torch.stack(memories),
        )

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
        return [self.embeddings, *self.layers]

    def _pool(self, hidden_ND: Tensor, packing: Packing) -> Tensor | None:
        """(B, D): the last token of each sequence through a dense tanh layer."""
        if self.pooler is None:
            return None
        return torch.tanh(self.pooler(hidden_ND.index_select(0, packing.last_tokens(hidden_ND.device))))

    def _init_parameters(self) -> None:
        """Normal with the config's deviation; norms 1, biases of linear layers 0."""
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
        context: RelativeContext,
        head_mask_H: Tensor | None,
        need_content: bool = True,
    ) -> Streams:
        block = self.layers[layer]
        inputs = (content_ND, query_BKD, memory_BMD, context, head_mask_H, need_content)
        if self.config.checkpoint_layers and self.training and torch.is_grad_enabled():
            return checkpoint(block, *inputs, use_reentrant=False)  # type: ignore[no-any-return]
        return block(*inputs)  # type: ignore[no-any-return]

    def _next_memory(self, content_BTD: Tensor, memory_BMD: Tensor | None) -> Tensor:
        """(B, M, D): the memory of the next segment."""
        new_BTD = content_BTD[:, : self.config.reuse]
        whole = new_BTD if memory_BMD is None else torch.cat([memory_BMD.to(new_BTD.dtype), new_BTD], dim=1)
        return whole if self.config.memory is None else whole[:, -self.config.memory :]

    def _distances(self, keys: int, queries: int, device: torch.device, *, both_directions: bool = False) -> Tensor:
        tables = [
            distance_table(
                keys,
                queries,
                self.config.width,
                max_distance=self.config.max_distance,
                device=device,
                backwards=backwards,
            )
            for backwards in ([False, True] if both_directions else [False])
        ]
        return self.dropout(torch.stack(tables).to(self.mask.dtype))  # type: ignore[no-any-return]

    def _full_context(self, packing: Packing, segment_ids_N: Tensor | None, device: torch.device) -> RelativeContext:
        """Of a batch in which every token attends to its whole sequence."""
        runs = packing.runs
        longest = max(run.length for run in runs)
        segments: list[Tensor | None] = [None] * len(runs)
        if segment_ids_N is not None:
            parts = torch.split(segment_ids_N, [run.tokens for run in runs])
            segments = [part.view(run.count, run.length) for part, run in zip(parts, runs, strict=True)]
        return RelativeContext(
            runs=runs,
            distances_GRD=self._distances(longest, longest, device),
            content=tuple(
                content_mask(run.length, segment_ids_BT=segment) for run, segment in zip(runs, segments, strict=True)
            ),
        )


def _check_config(config: EncoderConfig) -> None:
    expected = replace(EncoderConfig(**FIXED_FIELDS), **{name: getattr(config, name) for name in FREE_FIELDS})
    for field in fields(config):
        value, only = getattr(config, field.name), getattr(expected, field.name)
        if value != only:
            raise ConfigError(f"'{field.name}' is {value!r}; an xlnet encoder only has {only!r}")


def _check_padding(mask_BT: Tensor) -> None:
    """Padding between tokens would change the distances; at either end it changes nothing."""
    starts_BT = mask_BT[:, 1:] & ~mask_BT[:, :-1]
    has_hole_B = starts_BT.sum(dim=1) + mask_BT[:, 0].long() > 1
    if bool(has_hole_B.any()):
        row = int(has_hole_B.nonzero()[0])
        raise InputError(f"sequence {row} of the batch has padding between its tokens", fix="pad at one end")
