"""The heads of pre-training, which predict tokens, sentence pairs and replacements, and the task heads of transformers.

They hold weights and compute logits; the objectives and tasks compute losses. Every head is called on the positions it
predicts and no others. Where the output matrix is the encoder's word table, it is passed in at the call.

Shapes: K predicted positions, D width, E width of the embedding tables, V vocabulary, B sequences.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spanlab.encoder.architectures import architecture_of
from spanlab.encoder.config import EncoderConfig, SpanBoundaryConfig
from spanlab.encoder.layers import ACTIVATIONS, Dropout, init_weights


def _new_decoder(config: EncoderConfig) -> nn.Parameter:
    """(V, E) an output matrix that is not the word table."""
    decoder = nn.Parameter(torch.empty(config.vocab_size, config.table_width))
    nn.init.normal_(decoder, std=config.init_std)
    return decoder


class MaskedLMHead(nn.Module):
    """Dense, activation, norm, then the word table and a bias: the token at a masked position.

    With `offsets`, one mask may stand for a whole span: a vector for the token's index in the span is added to the
    hidden state. The first token's is zero, so that a model without these vectors predicts it just the same.
    """

    def __init__(self, config: EncoderConfig, *, tied: bool = True, offsets: int = 0) -> None:
        """`offsets`: the tokens that can be told apart in a collapsed span; 0: every mask stands for one token."""
        super().__init__()
        self.activation = ACTIVATIONS[architecture_of(config).mlm_head_activation or config.activation]
        self.dense = nn.Linear(config.width, config.table_width, bias=architecture_of(config).mlm_head_bias)
        self.norm = nn.LayerNorm(config.table_width, eps=config.norm_eps, bias=config.norm_bias)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        init_weights(self.dense, config.init_std)
        self.decoder = None if tied else _new_decoder(config)
        self.offset: nn.Embedding | None = None
        if offsets:
            self.add_offsets(offsets, config.init_std)

    def add_offsets(self, count: int, init_std: float) -> None:
        """Give the head new vectors for the tokens of collapsed spans."""
        self.offset = nn.Embedding(count, self.dense.in_features, padding_idx=0)  # row 0 stays zero in training
        init_weights(self.offset, init_std)
        with torch.no_grad():
            self.offset.weight[0] = 0.0

    def features(self, hidden_KD: Tensor, offset_K: Tensor | None = None) -> Tensor:
        """(K, E): what the output matrix is applied to; `offset_K` counts from 0 in collapsed spans, None: all 0."""
        if self.offset is not None:
            if offset_K is None:
                offset_K = torch.zeros(len(hidden_KD), dtype=torch.long, device=hidden_KD.device)
            hidden_KD = hidden_KD + self.offset(offset_K).to(hidden_KD.dtype)
        return self.norm(self.activation(self.dense(hidden_KD)))  # type: ignore[no-any-return]

    def forward(self, hidden_KD: Tensor, word_table_VE: Tensor, offset_K: Tensor | None = None) -> Tensor:
        """(K, V) logits."""
        table_VE = word_table_VE if self.decoder is None else self.decoder
        return F.linear(self.features(hidden_KD, offset_K), table_VE, self.bias)


class CausalLMHead(nn.Module):
    """The word table alone, or a matrix of its own: the next token."""

    def __init__(self, config: EncoderConfig, *, tied: bool = True) -> None:
        super().__init__()
        self.decoder = None if tied else _new_decoder(config)

    def forward(self, hidden_KD: Tensor, word_table_VE: Tensor) -> Tensor:
        """(K, V) logits."""
        return F.linear(hidden_KD, word_table_VE if self.decoder is None else self.decoder)


class PermutationLMHead(nn.Module):
    """The word table and a bias: the token at a position of XLNet's query stream."""

    def __init__(self, config: EncoderConfig, *, tied: bool = True) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.decoder = None if tied else _new_decoder(config)

    def forward(self, hidden_KD: Tensor, word_table_VE: Tensor) -> Tensor:
        """(K, V) logits."""
        return F.linear(hidden_KD, word_table_VE if self.decoder is None else self.decoder, self.bias)


class BidirectionalLMHead(nn.Module):
    """ELMo's softmax: one output matrix for both directions, over the hidden states of one."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.decoder = nn.Parameter(torch.empty(config.vocab_size, config.table_width))
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        nn.init.normal_(self.decoder, std=config.table_width**-0.5)

    def forward(self, hidden_KE: Tensor) -> Tensor:
        """(K, V) logits from one direction's hidden states."""
        return F.linear(hidden_KE, self.decoder, self.bias)


class SentencePairHead(nn.Module):
    """Two classes from the pooled vector: is the second segment the next one (NSP), are the two swapped (SOP)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.classifier = nn.Linear(config.width, 2)
        init_weights(self.classifier, config.init_std)

    def forward(self, pooled_BD: Tensor) -> Tensor:
        """(B, 2) logits."""
        return self.classifier(pooled_BD)  # type: ignore[no-any-return]


class ReplacedTokenHead(nn.Module):
    """ELECTRA's discriminator: was this token replaced?"""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.dense = nn.Linear(config.width, config.width)
        self.classifier = nn.Linear(config.width, 1)
        for layer in (self.dense, self.classifier):
            init_weights(layer, config.init_std)

    def forward(self, hidden_KD: Tensor) -> Tensor:
        """(K,) logits, positive for replaced."""
        return self.classifier(self.activation(self.dense(hidden_KD))).squeeze(-1)  # type: ignore[no-any-return]


class SpanBoundaryHead(nn.Module):
    """SpanBERT's span boundary objective: a masked token from the two tokens at the edge of its span and its position.

    As published, the input of masked token i of the span (s, e) is [h(s-1); h(e+1); p(i-s+1)]; two layers of Linear,
    GELU and LayerNorm follow, then the word table with a bias of its own. It works on the hidden states of any encoder.
    The options make the simpler and the wider heads, such as softmax(W2 ReLU(W1 [h(s); h(e)])).
    """

    def __init__(
        self,
        width: int,
        vocab_size: int,
        *,
        table_width: int | None = None,
        boundaries: Literal["external", "internal"] = "external",
        positions: bool = True,
        combine: Literal["concat", "sum", "sum-all"] = "concat",
        activation: Literal["gelu", "relu"] = "gelu",
        layers: int = 2,
        inner_width: int | None = None,
        norm: bool = True,
        bias: bool = True,
        tie: bool = True,
        max_span: int | None = 20,
        position_width: int = 200,
    ) -> None:
        """New weights; `table_width` is E where it differs from the width, the rest as in `SpanBoundaryConfig`."""
        super().__init__()
        self.config = SpanBoundaryConfig(
            boundaries=boundaries,
            positions=positions,
            combine=combine,
            activation=activation,
            layers=layers,
            inner_width=inner_width,
            norm=norm,
            bias=bias,
            tie=tie,
            max_span=max_span,
            position_width=position_width,
        )
        self.activation = ACTIVATIONS[activation]
        input_width = 2 * width if combine == "concat" else width
        self.position: nn.Embedding | None = None
        if self.config.span_limit is not None:
            position_width = width if combine == "sum-all" else position_width
            self.position = nn.Embedding(self.config.span_limit, position_width)
            input_width += 0 if combine == "sum-all" else position_width
        hidden_width = inner_width or width
        output_width = (table_width or width) if tie else hidden_width
        self.dense_in = nn.Linear(input_width, hidden_width if layers == 2 else output_width, bias=bias)
        self.norm_in = nn.LayerNorm(self.dense_in.out_features, eps=1e-12) if norm else None
        self.dense_out = nn.Linear(hidden_width, output_width, bias=bias) if layers == 2 else None
        self.norm_out = nn.LayerNorm(output_width, eps=1e-12) if norm and layers == 2 else None
        self.bias = nn.Parameter(torch.zeros(vocab_size)) if bias else None
        for layer in (self.position, self.dense_in, self.dense_out):
            if layer is not None:
                init_weights(layer, 0.02)
        self.decoder = None if tie else nn.Parameter(torch.empty(vocab_size, output_width))
        if self.decoder is not None:
            nn.init.normal_(self.decoder, std=0.02)

    def features(self, left_KD: Tensor, right_KD: Tensor, offset_K: Tensor) -> Tensor:
        """(K, E): what the output matrix is applied to; `offset_K` counts from 0 at the span's first token."""
        parts = [left_KD, right_KD] if self.config.combine == "concat" else [left_KD + right_KD]
        if self.position is not None:
            position_KP = self.position(offset_K).to(left_KD.dtype)
            parts = [parts[0] + position_KP] if self.config.combine == "sum-all" else [*parts, position_KP]
        x_KD: Tensor = self.activation(self.dense_in(torch.cat(parts, dim=-1)))
        x_KD = x_KD if self.norm_in is None else self.norm_in(x_KD)
        if self.dense_out is None:
            return x_KD
        x_KE: Tensor = self.activation(self.dense_out(x_KD))
        return x_KE if self.norm_out is None else self.norm_out(x_KE)

    def forward(self, left_KD: Tensor, right_KD: Tensor, offset_K: Tensor, word_table_VE: Tensor) -> Tensor:
        """(K, V) logits from the boundary vectors and the position in the span of each masked token."""
        table_VE = word_table_VE if self.decoder is None else self.decoder
        return F.linear(self.features(left_KD, right_KD, offset_K), table_VE, self.bias)


class SequenceHead(nn.Module):
    """Labels of a whole sequence."""

    def __init__(self, config: EncoderConfig, labels: int) -> None:
        super().__init__()
        architecture = architecture_of(config)
        self.on_pooled = architecture.has_pooled_head and config.pooler
        self.dense = None if self.on_pooled else nn.Linear(config.width, config.width)
        self.activation = ACTIVATIONS[architecture.sequence_head_activation]
        self.dropout = Dropout(config.dropout)
        self.classifier = nn.Linear(config.width, labels)
        for layer in (self.dense, self.classifier):
            if layer is not None:
                init_weights(layer, config.init_std)

    def forward(self, token_BD: Tensor, pooled_BD: Tensor | None) -> Tensor:
        """(B, L) logits from the pooled vector where the architecture has one, else from that token's hidden state."""
        if self.dense is None:
            assert pooled_BD is not None, "this head sits on a pooler"
            return self.classifier(self.dropout(pooled_BD))  # type: ignore[no-any-return]
        inner_BD = self.activation(self.dense(self.dropout(token_BD)))
        return self.classifier(self.dropout(inner_BD))  # type: ignore[no-any-return]


class TokenHead(nn.Module):
    """Labels of every token."""

    def __init__(self, config: EncoderConfig, labels: int) -> None:
        super().__init__()
        self.dropout = Dropout(config.dropout)
        self.classifier = nn.Linear(config.width, labels)
        init_weights(self.classifier, config.init_std)

    def forward(self, hidden_ND: Tensor) -> Tensor:
        """(N, L) logits."""
        return self.classifier(self.dropout(hidden_ND))  # type: ignore[no-any-return]


class AnswerHead(nn.Module):
    """How likely an answer starts and ends at each token."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.ends = nn.Linear(config.width, 2)
        init_weights(self.ends, config.init_std)

    def forward(self, hidden_ND: Tensor) -> Tensor:
        """(N, 2) logits: start, end."""
        return self.ends(hidden_ND)  # type: ignore[no-any-return]
