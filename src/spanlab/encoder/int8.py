"""Linear layers in 8 bits on a CPU, for prediction: weights per output channel, activations per token, as they come.

A weight is `scale_o * level`, with a scale for each output and levels of -127 to 127. Every token (row) of an input is
mapped onto levels of 0 to 255 from its own smallest to its own largest value, so that an outlier costs its own token
alone and a text has the same answer whatever it is batched with. With `x = s_n q + m_n` the product is

    y_no = s_n (Σ_k q_nk w_ok) + m_n Σ_k w_ok + b_o

The sum over k is oneDNN's product of unsigned and signed bytes, which was the fastest of torch's kernels that leave the
scale of a token free (docs/log.md). oneDNN makes code for every number of rows it meets, half a megabyte each, so rows
are filled up to few different numbers. Without VNNI instructions it adds pairs of products in 16 bits, which would
overflow: weights then have 7 bits (levels of -63 to 63).

Shapes: N tokens, D input width, O output width.
"""

import torch
from torch import Tensor, nn
from typing_extensions import override

from spanlab.encoder.layers import copy_sharing_tensors
from spanlab.encoder.model import Encoder
from spanlab.encoder.transformer import TransformerEncoder
from spanlab.encoder.xlnet.model import XLNetEncoder
from spanlab.encoder.xlnet.relative_attention import RelativeAttention
from spanlab.errors import ConfigError
from spanlab.machine import int8_instructions

_LEVELS, _REDUCED_LEVELS = 127, 63
_BLOCK = 1024
"""Rows of a product; more are several products."""
_STEPS = 8
"""Different numbers of rows in every doubling: beyond the first sixteen, at most one row in eight is filled up."""


class Int8Linear(nn.Module):
    """An `nn.Linear` for prediction alone, with its weight in 8 bits; float32 in and out."""

    def __init__(self, weight_OD: Tensor, bias_O: Tensor | None, *, levels: int) -> None:
        super().__init__()
        scale_O = weight_OD.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny) / levels
        level_OD = torch.round(weight_OD / scale_O[:, None]).to(torch.int8)
        self.out_features, self.in_features = weight_OD.shape
        self._packed = torch.ops.onednn.qlinear_prepack(level_OD, None)
        self._scale_O = scale_O
        self._sum_O = scale_O * level_OD.sum(dim=1, dtype=torch.float32)
        self._zero_O = torch.zeros(self.out_features, dtype=torch.int64)
        self._bias_O = torch.zeros(self.out_features) if bias_O is None else bias_O.detach()

    @override
    def forward(self, x_ND: Tensor) -> Tensor:
        """(…, O)."""
        flat_NO = self._add_product(self._bias_O, x_ND.reshape(-1, self.in_features))
        return flat_NO.view(*x_ND.shape[:-1], self.out_features)

    def add_to(self, residual_NO: Tensor, x_ND: Tensor) -> Tensor:
        """(N, O) `residual + self(x)`."""
        return self._add_product(residual_NO + self._bias_O, x_ND)

    def _add_product(self, start: Tensor, x_ND: Tensor) -> Tensor:
        """(N, O) `start`, which is (O,) or (N, O), plus the product."""
        count, width = x_ND.shape
        # (N, D + 8): the levels of each row, then its scale and its smallest value as float32.
        row_NB = torch.ops.quantized.embedding_bag_byte_prepack(x_ND.contiguous())
        affine_N2 = row_NB[:, width:].contiguous().view(torch.float32)
        # Smallest and largest values pass over NaN, which must not become a finite answer: a sum does not.
        low_N1 = affine_N2[:, 1:].addcmul(x_ND.sum(dim=1, keepdim=True), x_ND.new_zeros(()))
        y_NO = x_ND.new_empty(count, self.out_features)
        for first in range(0, count, _BLOCK):
            rows = slice(first, first + _BLOCK)
            start_RO = start if start.dim() == 1 else start[rows]
            product_RO = self._product(row_NB[rows, :width])
            torch.addcmul(start_RO, product_RO, affine_N2[rows, :1], out=y_NO[rows])
            y_NO[rows].addcmul_(low_N1[rows], self._sum_O)
        return y_NO

    def _product(self, level_ND: Tensor) -> Tensor:
        """(N, O) the weights times levels."""
        count = len(level_ND)
        filled_RD = level_ND.new_zeros(_rows(count), self.in_features)
        filled_RD[:count] = level_ND
        return torch.ops.onednn.qlinear_pointwise(  # type: ignore[no-any-return]
            filled_RD, 1.0, 0, self._packed, self._scale_O, self._zero_O, None, 1.0, 0, torch.float32, "none", [], ""
        )[:count]

    @override
    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


def _rows(count: int) -> int:
    """The number of rows to compute `count` rows with: multiples of an eighth of the power of two below, at least 2."""
    step = max(2, (1 << (max(1, count) - 1).bit_length()) // (2 * _STEPS))
    return -(-count // step) * step


def weight_levels() -> int:
    """The largest level of a weight that this CPU multiplies without overflow."""
    return _LEVELS if int8_instructions() is not None else _REDUCED_LEVELS


def int8_copy(encoder: Encoder) -> Encoder:
    """A copy of an encoder on the CPU whose linear layers compute in 8 bits; it shares all other tensors.

    The pooler, which belongs to the heads, and the relative attention of XLNet stay in float32.
    """
    check_int8(encoder)
    copied = copy_sharing_tensors(encoder)
    levels = weight_levels()
    made: dict[int, Int8Linear] = {}  # a layer that is used twice stays one
    with torch.no_grad():
        for parent in list(copied.modules()):
            if isinstance(parent, RelativeAttention):
                continue
            for name, module in parent.named_children():
                if isinstance(module, nn.Linear) and module is not copied.pooler:
                    layer = made.get(id(module)) or Int8Linear(module.weight.float(), module.bias, levels=levels)
                    made[id(module)] = layer
                    setattr(parent, name, layer)
    return copied


def can_use_int8(encoder: Encoder) -> bool:
    """Whether an encoder can compute in 8 bits here."""
    return isinstance(encoder, TransformerEncoder | XLNetEncoder) and torch.backends.mkldnn.is_available()


def check_int8(encoder: Encoder) -> None:
    """Raise where an encoder cannot compute in 8 bits here."""
    if not torch.backends.mkldnn.is_available():
        raise ConfigError("int8 needs oneDNN, which this torch is built without", fix="use precision=fp32")
    if not can_use_int8(encoder):
        raise ConfigError("int8 is for SpanLab's own Transformers, and this encoder is none", fix="use precision=fp32")
