"""An encoder over padded batches whose shapes are data: the form in which it is exported.

`TransformerEncoder` removes padding and groups sequences by length, in Python, which a traced graph cannot do. Here the
same layers run on (B, T, D) with a mask, and give the same hidden states at every token.

Shapes: B sequences, T padded length, D width, H heads, W width of a head.
"""

import copy
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from spanlab.encoder.attention import LayerContext, SelfAttention
from spanlab.encoder.attention_kernels import AttentionOutput
from spanlab.encoder.block import Block
from spanlab.encoder.positions import RotaryAngles
from spanlab.encoder.transformer import TransformerEncoder

Module = TypeVar("Module", bound=nn.Module)


def padded(module: Module) -> Module:
    """A copy for inference whose blocks take padded batches; weights are shared."""
    copied = copy.deepcopy(module, {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())})
    for part in list(copied.modules()):
        if isinstance(part, Block):
            part.attention = _PaddedAttention(part.attention)  # type: ignore[assignment]
        for name, child in part.named_children():
            if isinstance(child, nn.RMSNorm):
                setattr(part, name, _PlainRMSNorm(child))
    return copied.eval()


class PaddedEncoder(nn.Module):
    """The hidden states of a padded batch, and what its pooler gives."""

    shift_E: Tensor | None

    def __init__(self, encoder: TransformerEncoder, shift_E: Tensor | None = None) -> None:
        """`shift_E`, if given, is added to every embedded token. Weights are shared with `encoder`, and not changed."""
        super().__init__()
        self.register_buffer("shift_E", shift_E)
        self.encoder = padded(encoder)

    def forward(
        self, input_ids_BT: Tensor, lengths_B: Tensor, segment_ids_BT: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """(B, T, D) hidden states and, with a pooler, (B, D)."""
        encoder, config = self.encoder, self.encoder.config
        position_T = torch.arange(input_ids_BT.shape[1])
        embeds_BTE = None if self.shift_E is None else encoder.embeddings.word(input_ids_BT) + self.shift_E
        x_BTD = encoder.embeddings(input_ids_BT, position_T + config.position_offset, segment_ids_BT, embeds_BTE)
        if encoder.projection is not None:
            x_BTD = encoder.projection(x_BTD)
        mask_B1T = (position_T < lengths_B[:, None]).unsqueeze(1)
        rotary, local_rotary = encoder._rotary(position_T + config.position_offset)
        context = PaddedContext((), rotary, local_rotary, mask_B1T=mask_B1T)
        for layer in range(config.layers):
            for block in encoder.layers[layer * config.groups // config.layers]:  # type: ignore[attr-defined]
                x_BTD, _ = block(x_BTD, context)
        if encoder.final_norm is not None:
            x_BTD = encoder.final_norm(x_BTD)
        if encoder.pooler is None:
            return (x_BTD,)
        token_B = lengths_B - 1 if config.causal else torch.zeros_like(lengths_B)
        token_BD = x_BTD.gather(1, token_B[:, None, None].expand(-1, 1, config.width)).squeeze(1)
        return x_BTD, torch.tanh(encoder.pooler(token_BD))


@dataclass(frozen=True, kw_only=True)
class PaddedContext(LayerContext):
    """What attention needs of a padded batch."""

    mask_B1T: Tensor
    """Whether there is a token, and no padding."""


class _PaddedAttention(nn.Module):
    """`SelfAttention` on (B, T, D), by plain matrix products, which every runtime has."""

    def __init__(self, attention: SelfAttention) -> None:
        super().__init__()
        self.qkv, self.output = attention.qkv, attention.output
        self.heads, self.causal, self.reach = attention.heads, attention.causal, attention.reach

    def forward(self, x_BTD: Tensor, context: "PaddedContext", head_mask_H: Tensor | None = None) -> AttentionOutput:
        """(B, T, D) in and out."""
        batch, length = x_BTD.shape[0], x_BTD.shape[1]
        head_width = x_BTD.shape[2] // self.heads
        parts = self.qkv(x_BTD).chunk(3, dim=-1)
        q_BTHW, k_BTHW, v_BTHW = (part.reshape(batch, length, self.heads, head_width) for part in parts)
        rotary = context.rotary if self.reach is None else context.local_rotary
        if rotary is not None:
            q_BTHW, k_BTHW = _rotate(q_BTHW, rotary), _rotate(k_BTHW, rotary)
        q_BHTW, k_BHWT, v_BHTW = q_BTHW.transpose(1, 2), k_BTHW.permute(0, 2, 3, 1), v_BTHW.transpose(1, 2)
        visible_BTT = context.mask_B1T
        position_T = torch.arange(length)
        if self.causal:
            visible_BTT = visible_BTT & (position_T <= position_T[:, None])
        if self.reach is not None:
            near_TT = (position_T - position_T[:, None]).abs() <= self.reach
            # Padding far from every token sees itself: a softmax over nothing is not a number.
            visible_BTT = (visible_BTT & near_TT) | (position_T == position_T[:, None])
        bias_B1TT = (1.0 - visible_BTT.unsqueeze(1).to(x_BTD.dtype)) * torch.finfo(torch.float32).min
        weights_BHTT = (torch.matmul(q_BHTW * head_width**-0.5, k_BHWT) + bias_B1TT).softmax(dim=-1)
        mixed_BTHW = torch.matmul(weights_BHTT, v_BHTW).transpose(1, 2)
        return AttentionOutput(self.output(mixed_BTHW.reshape(batch, length, self.heads * head_width)), None)


class _PlainRMSNorm(nn.Module):
    """RMSNorm in single operations, since ONNX has none of that name before opset 23."""

    def __init__(self, norm: nn.RMSNorm) -> None:
        super().__init__()
        self.weight, self.eps = norm.weight, norm.eps

    def forward(self, x: Tensor) -> Tensor:
        """Same shape in and out."""
        assert self.eps is not None
        return x * torch.rsqrt((x * x).mean(dim=-1, keepdim=True) + self.eps) * self.weight


def _rotate(x_BTHW: Tensor, angles: RotaryAngles) -> Tensor:
    """Rotate each head's features i and i + W/2 by the angle of the token's position."""
    cosine_T1W, sine_T1W = (part.squeeze(1) for part in angles)
    first, second = x_BTHW.chunk(2, dim=-1)
    return torch.cat([first * cosine_T1W - second * sine_T1W, second * cosine_T1W + first * sine_T1W], dim=-1)
