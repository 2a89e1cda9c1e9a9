"""The heads of pre-training, which predict tokens, sentence pairs and replacements, and the task heads of transformers.

They hold weights and compute logits; the objectives and tasks compute losses. Every head is called on the positions it
predicts and no others. Where the output matrix is the encoder's word table, it is passed in at the call.

Shapes: K predicted positions, D width, E width of the embedding tables, V vocabulary, B sequences.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spanlab.config import AtLeast, AtMost, Bounded
from spanlab.encoder.architectures import architecture_of
from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.layers import ACTIVATIONS, Dropout, init_weights
from spanlab.errors import ConfigError, did_you_mean


def _new_decoder(config: EncoderConfig) -> nn.Parameter:
    """(V, E) an output matrix that is not the word table."""
    decoder = nn.Parameter(torch.empty(config.vocab_size, config.table_width))
    nn.init.normal_(decoder, std=config.init_std)
    return decoder


class MaskedLMHead(nn.Module):
    """Dense, activation, norm, then the word table and a bias: the token at a masked position."""

    def __init__(self, config: EncoderConfig, *, tied: bool = True) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[architecture_of(config).mlm_head_activation or config.activation]
        self.dense = nn.Linear(config.width, config.table_width, bias=architecture_of(config).mlm_head_bias)
        self.norm = nn.LayerNorm(config.table_width, eps=config.norm_eps, bias=config.norm_bias)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        init_weights(self.dense, config.init_std)
        self.decoder = None if tied else _new_decoder(config)

    def features(self, hidden_KD: Tensor) -> Tensor:
        """(K, E): what the output matrix is applied to."""
        return self.norm(self.activation(self.dense(hidden_KD)))  # type: ignore[no-any-return]

    def forward(self, hidden_KD: Tensor, word_table_VE: Tensor) -> Tensor:
        """(K, V) logits."""
        table_VE = word_table_VE if self.decoder is None else self.decoder
        return F.linear(self.features(hidden_KD), table_VE, self.bias)


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


@dataclass(frozen=True, kw_only=True)
class SpanBoundaryConfig(Bounded):
    """The inputs of a span boundary head and how it combines them; the defaults are as published."""

    boundaries: Literal["external", "internal"] = "external"
    """The two tokens the head reads: the ones just outside the span, or the first and the last inside it."""
    combine: Literal["concat", "sum"] = "concat"
    """Whether the two boundary vectors are concatenated or added."""
    activation: Literal["gelu", "relu"] = "gelu"
    max_span: Annotated[int, AtLeast(1), AtMost(10_000)] | None = 20
    """How many positions in a span have an embedding; None: the head does not know the position."""
    position_width: Annotated[int, AtLeast(1), AtMost(65_536)] = 200
    """The width of those embeddings."""

    def __post_init__(self) -> None:
        super().__post_init__()
        choices = {"boundaries": ("external", "internal"), "combine": ("concat", "sum"), "activation": ("gelu", "relu")}
        for name, known in choices.items():
            value = getattr(self, name)
            if value not in known:
                hint = did_you_mean(str(value), known)
                raise ConfigError(f"'{name}' is '{value}'{hint}; it must be one of {', '.join(known)}")


class SpanBoundaryHead(nn.Module):
    """SpanBERT's span boundary objective: a masked token from the two tokens at the edge of its span and its position.

    As published, the input of masked token i of the span (s, e) is [h(s-1); h(e+1); p(i-s+1)]; two layers of Linear,
    GELU and LayerNorm follow, then the word table with a bias of its own. It works on the hidden states of any encoder.
    """

    def __init__(
        self,
        width: int,
        vocab_size: int,
        *,
        table_width: int | None = None,
        boundaries: Literal["external", "internal"] = "external",
        combine: Literal["concat", "sum"] = "concat",
        activation: Literal["gelu", "relu"] = "gelu",
        max_span: int | None = 20,
        position_width: int = 200,
    ) -> None:
        """New weights; `table_width` is E where it differs from the width, the rest as in `SpanBoundaryConfig`."""
        super().__init__()
        self.config = SpanBoundaryConfig(
            boundaries=boundaries,
            combine=combine,
            activation=activation,
            max_span=max_span,
            position_width=position_width,
        )
        self.activation = ACTIVATIONS[activation]
        self.position = None if max_span is None else nn.Embedding(max_span, position_width)
        boundary_width = 2 * width if combine == "concat" else width
        self.dense_in = nn.Linear(boundary_width + (0 if max_span is None else position_width), width)
        self.norm_in = nn.LayerNorm(width, eps=1e-12)
        self.dense_out = nn.Linear(width, table_width or width)
        self.norm_out = nn.LayerNorm(table_width or width, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        for layer in (self.position, self.dense_in, self.dense_out):
            if layer is not None:
                init_weights(layer, 0.02)

    def features(self, left_KD: Tensor, right_KD: Tensor, offset_K: Tensor) -> Tensor:
        """(K, E): what the output matrix is applied to; `offset_K` counts from 0 at the span's first token."""
        parts = [left_KD, right_KD] if self.config.combine == "concat" else [left_KD + right_KD]
        if self.position is not None:
            parts.append(self.position(offset_K).to(left_KD.dtype))
        x_KD = self.norm_in(self.activation(self.dense_in(torch.cat(parts, dim=-1))))
        return self.norm_out(self.activation(self.dense_out(x_KD)))  # type: ignore[no-any-return]

    def forward(self, left_KD: Tensor, right_KD: Tensor, offset_K: Tensor, word_table_VE: Tensor) -> Tensor:
        """(K, V) logits from the boundary vectors and the position in the span of each masked token."""
        return F.linear(self.features(left_KD, right_KD, offset_K), word_table_VE, self.bias)


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
