"""The decoder of the Transformer (Vaswani et al. 2017): causal self-attention, cross-attention, feed-forward network.

Target tokens, packed, and the hidden states of an encoder enter; the hidden states that predict the next tokens leave.
The encoder may be of any architecture and width; the decoder's word table is its own, or the encoder's, which is then
handed in at every call. A decoder is described by an `EncoderConfig` that is causal.

With a cache every target token is computed once, and the keys and values of the memory are computed once.

Shapes: B target sequences, N their tokens, M states of the memory, A its width, D width, E width of the word table,
V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spanlab.encoder.attention import LayerContext
from spanlab.encoder.batch import Batch, read_batch
from spanlab.encoder.block import Block
from spanlab.encoder.cache import CacheStep, KeyValueCache, LayerCache
from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.cross_attention import CrossContext, LayerMemory, Memory, Queries
from spanlab.encoder.embeddings import Embeddings
from spanlab.encoder.layers import build_norm, init_weights
from spanlab.encoder.packing import Packing, pack_lengths
from spanlab.encoder.positions import rotary_angles
from spanlab.errors import ConfigError


class DecoderCache:
    """Sequences that are being decoded: their keys and values, and those of the memory that each of them reads."""

    def __init__(self, decoder: "Decoder", memory: Memory, capacity: int) -> None:
        """One empty sequence for each sequence of the memory, of at most `capacity` tokens."""
        hidden_MA, count = memory.hidden_MA, len(memory.lengths)
        self.own = KeyValueCache(decoder.config, count, capacity, device=hidden_MA.device, dtype=hidden_MA.dtype)
        self.memory = memory
        self.rows = list(range(count))
        """The sequence of the memory that each sequence reads."""
        self.layers = [LayerMemory() for _ in decoder.layers]

    def select(self, rows: Sequence[int]) -> None:
        """Keep the sequences at `rows`, in that order; a row may appear several times, as in beam search."""
        self.own.select(rows)
        sources = [self.rows[row] for row in rows]
        kept = sorted(set(sources))
        index = {source: place for place, source in enumerate(kept)}
        self.rows = [index[source] for source in sources]
        if len(kept) < len(self.memory.lengths):
            self._keep(kept)

    def _keep(self, kept: Sequence[int]) -> None:
        """Drop what no sequence reads any longer."""
        memory = self.memory
        lengths = [memory.lengths[source] for source in kept]
        kept_B = torch.tensor(kept, device=memory.hidden_MA.device)
        self.memory = Memory.of(memory.hidden_MA[torch.isin(memory.rows_M, kept_B)], lengths)
        for layer in self.layers:
            layer.select(kept_B, max(lengths))


class Decoder(nn.Module):
    """A stack of blocks over the word embeddings of a target, reading the hidden states of an encoder."""

    def __init__(self, config: EncoderConfig, *, memory_width: int, own_words: bool = True) -> None:
        """`own_words`: a word table of its own; otherwise `word_table_VE` is given at every call."""
        super().__init__()
        if not config.causal or config.positions in {"relative", "none"} or config.layer_groups is not None:
            raise ConfigError("a decoder is causal, with positions of its own, and its layers share no weights")
        self.config, self.own_words = config, own_words
        self.embeddings = Embeddings(config, own_words=own_words)
        widen = config.table_width != config.width
        self.projection = nn.Linear(config.table_width, config.width) if widen else None
        self.output = nn.Linear(config.width, config.table_width) if widen else None
        self.layers = nn.ModuleList(Block(config, layer, memory_width=memory_width) for layer in range(config.layers))
        self.final_norm = build_norm(config.norm, config.width, config.norm_eps) if config.final_norm else None
        for module in self.modules():
            init_weights(module, config.init_std)

    def forward(
        self,
        input_ids_N: Tensor,
        lengths_B: Tensor,
        memory: Memory,
        word_table_VE: Tensor | None = None,
        rows: Sequence[int] | None = None,
    ) -> Tensor:
        """(N, E) what the word table is multiplied with, for the token after each of `input_ids_N`.

        Sequence i of the targets reads sequence `rows[i]` of the memory; by default sequence i.
        """
        batch = self._read(input_ids_N, lengths_B, None)
        context = self._context(batch, memory, range(len(memory.lengths)) if rows is None else rows)
        x_ND = self._embed(batch, word_table_VE)
        for block in self.layers:
            x_ND, _ = block(x_ND, context)
        return self._finish(x_ND, batch.packing)

    @torch.no_grad()
    def extend(
        self, cache: DecoderCache, input_ids_N: Tensor, lengths_B: Tensor, word_table_VE: Tensor | None = None
    ) -> Tensor:
        """(N, E) as `forward`, for new tokens that continue the sequences of a cache and are added to it."""
        step = cache.own.plan(pack_lengths(len(input_ids_N), lengths_B))
        batch = self._read(input_ids_N, lengths_B, step)
        context = self._context(batch, cache.memory, cache.rows)
        assert context.cross is not None
        x_ND = self._embed(batch, word_table_VE)
        own = zip(cache.own.keys, cache.own.values, strict=True)
        for block, keys_values, layer in zip(self.layers, own, cache.layers, strict=True):
            cross = replace(context.cross, layer=layer)
            x_ND, _ = block(x_ND, replace(context, cache=LayerCache(*keys_values, step), cross=cross))
        cache.own.advance(step)
        return self._finish(x_ND, batch.packing)

    def logits(self, features_NE: Tensor, word_table_VE: Tensor | None = None) -> Tensor:
        """(N, V) of the next token."""
        return F.linear(features_NE, self.words(word_table_VE))

    def words(self, word_table_VE: Tensor | None = None) -> Tensor:
        """(V, E) the word table: its own, or the encoder's."""
        if self.own_words:
            return self.embeddings.word.weight
        assert word_table_VE is not None, "the decoder has no words of its own"
        return word_table_VE

    def _read(self, input_ids_N: Tensor, lengths_B: Tensor, step: CacheStep | None) -> Batch:
        positions_N = None
        if step is not None:
            positions_N = step.positions_N
            packing = pack_lengths(len(input_ids_N), lengths_B)
            if packing.source_N is not None:
                positions_N = torch.empty_like(positions_N).index_copy_(0, packing.source_N, positions_N)
        return read_batch(
            self.config,
            input_ids=input_ids_N,
            attention_mask=None,
            token_type_ids=None,
            position_ids=positions_N,
            inputs_embeds=None,
            lengths=lengths_B,
        )

    def _embed(self, batch: Batch, word_table_VE: Tensor | None) -> Tensor:
        assert batch.input_ids_N is not None
        embeds_NE = F.embedding(batch.input_ids_N, self.words(word_table_VE))
        x_NE = self.embeddings(None, batch.position_ids_N, embeds_NE=embeds_NE)
        return x_NE if self.projection is None else self.projection(x_NE)  # type: ignore[no-any-return]

    def _context(self, batch: Batch, memory: Memory, rows: Sequence[int]) -> LayerContext:
        """What the blocks need of a batch, in the order of the flat axis; `rows` in that of the batch."""
        packing, config = batch.packing, self.config
        order = range(len(rows)) if packing.order_B is None else packing.order_B.tolist()
        queries = Queries.of(packing.sequence_lengths, [rows[index] for index in order], memory.hidden_MA.device)
        angles = None
        if config.positions == "rotary":
            angles = rotary_angles(batch.position_ids_N, config.head_width, config.rotary_base)
        return LayerContext(packing.runs, angles, angles, cross=CrossContext(memory, queries))

    def _finish(self, x_ND: Tensor, packing: Packing) -> Tensor:
        x_ND = x_ND if self.final_norm is None else self.final_norm(x_ND)
        return packing.restore(x_ND if self.output is None else self.output(x_ND))
