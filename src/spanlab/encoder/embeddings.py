"""Token, position and segment embeddings, summed, normalised, with dropout.

Shapes: N tokens, E width of the tables.
"""

import math

from torch import Tensor, nn

from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.layers import Dropout, build_norm
from spanlab.encoder.positions import sinusoid_table


class Embeddings(nn.Module):
    """The input of the first layer, at the width of the tables."""

    def __init__(self, config: EncoderConfig, *, own_words: bool = True) -> None:
        """Without `own_words` there is no word table, and token vectors are given."""
        super().__init__()
        width, rows = config.table_width, config.max_positions + config.position_offset
        if own_words:
            self.word = nn.Embedding(config.vocab_size, width)
        self.position = nn.Embedding(rows, width) if config.positions == "learned" else None
        # With relative positions segments are relative too: attention compares them.
        has_table = config.segments and config.positions != "relative"
        self.segment = nn.Embedding(config.segments, width) if has_table else None
        self.norm = (
            build_norm(config.norm, width, config.norm_eps, bias=config.norm_bias) if config.embedding_norm else None
        )
        self.dropout = Dropout(config.dropout)
        self.scale = math.sqrt(width) if config.scale_embeddings else 1.0
        sinusoids = sinusoid_table(rows, width) if config.positions == "sinusoidal" else None
        self.register_buffer("sinusoids", sinusoids, persistent=False)

    def forward(
        self,
        input_ids_N: Tensor | None,
        position_ids_N: Tensor,
        segment_ids_N: Tensor | None = None,
        embeds_NE: Tensor | None = None,
    ) -> Tensor:
        """(N, E) from token ids or from given token vectors; segment 0 where no segments are given."""
        x_NE = self.word(input_ids_N) if embeds_NE is None else embeds_NE
        if self.scale != 1.0:
            x_NE = x_NE * self.scale
        if self.position is not None:
            x_NE = x_NE + self.position(position_ids_N)
        elif isinstance(self.sinusoids, Tensor):
            x_NE = x_NE + self.sinusoids[position_ids_N]
        if self.segment is not None:
            x_NE = x_NE + (self.segment.weight[0] if segment_ids_N is None else self.segment(segment_ids_N))
        return self.dropout(x_NE if self.norm is None else self.norm(x_NE))  # type: ignore[no-any-return]
