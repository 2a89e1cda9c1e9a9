"""Span representations: a vector for each span of a packed batch.

Hidden states (N, D) of a packed batch and spans enter; vectors (S, F) leave. Spans are index arrays into the packed
tokens, so spans of many windows and documents form one list. Entities, mentions and relation arguments all use this.

A vector concatenates the end points (as they are, or through one network for starts and one for ends), the tokens
inside (mean, maximum, or attention to a head word as in end-to-end coreference) and a width embedding. No tensor of
shape (spans, width, D) is made: tokens inside are summed by `embedding_bag` from the packed hidden states. If a linear
layer follows, `project` applies it to the N tokens and gathers, which saves a factor of the width over concatenating
first; the result is the same.

Shapes: N packed tokens, S spans, D width of the encoder, F features of a span, G tokens in all spans.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spanlab.arrays import Integers
from spanlab.encoder.layers import ACTIVATIONS, Dropout, init_weights
from spanlab.tasks.spans.config import SpanConfig
from spanlab.tasks.tensor_batch import TensorBatch


@dataclass(frozen=True, eq=False, kw_only=True)
class Spans:
    """S spans of a packed batch, on a device."""

    first_S: Tensor
    """Their first tokens."""
    last_S: Tensor
    """Their last tokens, inclusive."""
    widths_S: Tensor
    """Their widths, from 1, in the unit of enumeration: tokens or words."""

    @classmethod
    def of(cls, first: Integers, last: Integers, widths: Integers | None = None) -> "Spans":
        """From arrays on the host; `widths` are in tokens by default."""
        widths = last - first + 1 if widths is None else widths
        first_S, last_S, widths_S = (torch.from_numpy(np.ascontiguousarray(array)) for array in (first, last, widths))
        return cls(first_S=first_S, last_S=last_S, widths_S=widths_S)

    def __len__(self) -> int:
        return len(self.first_S)

    def to(self, device: torch.device | str) -> "Spans":
        """The same spans on a device."""
        first_S, last_S, widths_S = (tensor.to(device) for tensor in (self.first_S, self.last_S, self.widths_S))
        return Spans(first_S=first_S, last_S=last_S, widths_S=widths_S)

    def select(self, chosen_K: Tensor) -> "Spans":
        """Some of them, by index or mask."""
        return Spans(first_S=self.first_S[chosen_K], last_S=self.last_S[chosen_K], widths_S=self.widths_S[chosen_K])


def packed_spans(batch: TensorBatch) -> Spans:
    """The spans of all samples, from the features `first`, `last` and `widths`, in the packed batch."""
    return Spans(first_S=batch.packed("first"), last_S=batch.packed("last"), widths_S=batch.features["widths"])


class EndPointNetwork(nn.Module):
    """A network with one hidden layer, for the first or the last tokens of spans."""

    def __init__(self, width: int, out: int, dropout: float) -> None:
        super().__init__()
        self.inner = nn.Linear(width, out)
        self.outer = nn.Linear(out, out)
        self.dropout = Dropout(dropout)

    def forward(self, x_ND: Tensor) -> Tensor:
        """(N, out)."""
        return self.outer(self.dropout(ACTIVATIONS["gelu"](self.inner(x_ND))))  # type: ignore[no-any-return]


class SpanRepresentation(nn.Module):
    """A vector for each span of a packed batch."""

    def __init__(self, width: int, config: SpanConfig, *, dropout: float = 0.1, init_std: float = 0.02) -> None:
        super().__init__()
        self.config = config
        networks = config.ends == "networks"
        self.start_network = EndPointNetwork(width, config.network_width, dropout) if networks else None
        self.end_network = EndPointNetwork(width, config.network_width, dropout) if networks else None
        self.attention = nn.Linear(width, 1) if config.inside == "attention" else None
        self.widths = nn.Embedding(config.max_width, config.width_features) if config.width_features else None
        for module in self.modules():
            init_weights(module, init_std)
        end = {"concatenated": width, "networks": config.network_width, "none": 0}[config.ends]
        self._sizes = [end, end, 0 if config.inside == "none" else width, config.width_features]

    @property
    def features(self) -> int:
        """F, the size of a span's vector."""
        return sum(self._sizes)

    def forward(self, hidden_ND: Tensor, spans: Spans) -> Tensor:
        """(S, F) one vector a span."""
        parts = []
        if self.config.ends != "none":
            start_NE, end_NE = self._end_points(hidden_ND)
            parts += [start_NE[spans.first_S], end_NE[spans.last_S]]
        if self.config.inside != "none":
            parts.append(self._inside(hidden_ND, hidden_ND, spans))
        if self.widths is not None:
            parts.append(self.widths(self._width_rows(spans)))
        return torch.cat(parts, dim=1)

    def project(self, hidden_ND: Tensor, spans: Spans, layer: nn.Linear) -> Tensor:
        """(S, H) `layer(self(hidden_ND, spans))`, with the layer applied to tokens where that is equivalent."""
        start_HE, end_HE, inside_HD, width_HW = torch.split(layer.weight, self._sizes, dim=1)
        out_SH: Tensor = hidden_ND.new_zeros(()) if layer.bias is None else layer.bias
        if self.config.ends != "none":
            start_NE, end_NE = self._end_points(hidden_ND)
            out_SH = out_SH + F.linear(start_NE, start_HE)[spans.first_S] + F.linear(end_NE, end_HE)[spans.last_S]
        if self.config.inside == "max":
            out_SH = out_SH + F.linear(self._inside(hidden_ND, hidden_ND, spans), inside_HD)
        elif self.config.inside != "none":  # a linear layer commutes with a weighted mean
            out_SH = out_SH + self._inside(hidden_ND, F.linear(hidden_ND, inside_HD), spans)
        if self.widths is not None:
            out_SH = out_SH + F.linear(self.widths.weight, width_HW)[self._width_rows(spans)]
        return out_SH

    def _end_points(self, hidden_ND: Tensor) -> tuple[Tensor, Tensor]:
        if self.start_network is None or self.end_network is None:
            return hidden_ND, hidden_ND
        return self.start_network(hidden_ND), self.end_network(hidden_ND)

    def _inside(self, hidden_ND: Tensor, values_NV: Tensor, spans: Spans) -> Tensor:
        """(S, V) the pooled values of each span's tokens; attention scores are computed from the hidden states."""
        if self.attention is not None:
            return attend(values_NV, self.attention(hidden_ND).squeeze(-1), spans)
        return pool(values_NV, spans, maximum=self.config.inside == "max")

    def _width_rows(self, spans: Spans) -> Tensor:
        return spans.widths_S.clamp(max=self.config.max_width) - 1


def pool(values_NV: Tensor, spans: Spans, *, maximum: bool = False) -> Tensor:
    """(S, V) the mean, or the maximum, of the values of each span's tokens."""
    if torch.onnx.is_in_onnx_export():
        return _range_maximum(values_NV, spans) if maximum else _inside_rows(values_NV, spans) @ values_NV
    tokens_G, offsets_S = tokens_of(spans)
    return F.embedding_bag(tokens_G, values_NV, offsets_S, mode="max" if maximum else "mean")


def attend(values_NV: Tensor, scores_N: Tensor, spans: Spans) -> Tensor:
    """(S, V) the values of each span's tokens, weighted by a softmax of the scores within the span."""
    if torch.onnx.is_in_onnx_export():
        inside_SN = _inside_rows(values_NV, spans) > 0
        return scores_N.float().masked_fill(~inside_SN, -torch.inf).softmax(dim=-1) @ values_NV
    tokens_G, offsets_S = tokens_of(spans)
    weights_G = span_softmax(scores_N.float()[tokens_G], spans.last_S - spans.first_S + 1)
    return F.embedding_bag(tokens_G, values_NV, offsets_S, mode="sum", per_sample_weights=weights_G.to(values_NV.dtype))


# ONNX has no `embedding_bag`. There, the spans of a window, or of a block of a document, are rows over its tokens.

_LEVELS = 15
"""Ranges of up to 2 to the power of so many tokens have a maximum."""


def _inside_rows(values_NV: Tensor, spans: Spans) -> Tensor:
    """(S, N) the share of each token in the mean of each span."""
    token_N = torch.arange(values_NV.shape[0], device=values_NV.device)
    inside_SN = (token_N >= spans.first_S[:, None]) & (token_N <= spans.last_S[:, None])
    return inside_SN.to(values_NV.dtype) / (spans.last_S - spans.first_S + 1)[:, None].to(values_NV.dtype)


def _range_maximum(values_NV: Tensor, spans: Spans) -> Tensor:
    """(S, V) the maximum of each span, from those of the two ranges of a power of two tokens that cover it."""
    last_token = values_NV.shape[0] - 1
    position_N = torch.arange(values_NV.shape[0], device=values_NV.device)
    tables = [values_NV]
    for level in range(_LEVELS - 1):
        shifted_N = torch.clamp(position_N + 2**level, max=last_token)
        tables.append(torch.maximum(tables[-1], tables[-1].index_select(0, shifted_N)))
    table_RV = torch.cat(tables)
    width_S = spans.last_S - spans.first_S + 1
    level_S = sum((width_S >= 2**level).long() for level in range(1, _LEVELS))
    power_S = torch.tensor([2**level for level in range(_LEVELS)])[level_S]
    row_S = level_S * values_NV.shape[0]
    left_SV = table_RV.index_select(0, row_S + spans.first_S)
    return torch.maximum(left_SV, table_RV.index_select(0, row_S + spans.last_S - power_S + 1))


def span_softmax(scores_G: Tensor, counts_S: Tensor) -> Tensor:
    """(G,) softmax within each span; `scores_G` are those of all spans concatenated, `counts_S` (S,) of each."""
    span_G = torch.repeat_interleave(counts_S)
    highest_S = scores_G.new_full(counts_S.shape, -torch.inf)
    # Subtracting the maximum only prevents overflow; it cancels out, so it needs no gradient.
    highest_S = highest_S.scatter_reduce(0, span_G, scores_G.detach(), "amax")
    exp_G = torch.exp(scores_G - highest_S[span_G])
    sums_S = torch.zeros_like(highest_S).index_add(0, span_G, exp_G)
    return exp_G / sums_S[span_G]


def tokens_of(spans: Spans) -> tuple[Tensor, Tensor]:
    """(G,) the tokens of all spans concatenated, and (S,) the offset of each span in them."""
    counts_S = spans.last_S - spans.first_S + 1
    offsets_S = torch.cumsum(counts_S, 0) - counts_S
    shift_G = torch.repeat_interleave(spans.first_S - offsets_S, counts_S)
    return torch.arange(len(shift_G), device=shift_G.device) + shift_G, offsets_S
