"""The original Transformer encoder equals torch's own, which has no embeddings: those are checked by hand."""

import math

import pytest
import torch
from torch import nn

from spanlab.encoder import Encoder, TransformerEncoder, preset


def oracle_for(encoder: Encoder) -> nn.TransformerEncoder:
    config = encoder.config
    layer = nn.TransformerEncoderLayer(
        config.width,
        config.heads,
        config.inner_width,
        dropout=0.0,
        activation="relu",
        batch_first=True,
        norm_first=False,
    )
    stack = nn.TransformerEncoder(layer, config.layers, enable_nested_tensor=False)
    for theirs, (ours,) in zip(stack.layers, encoder.layers, strict=True):
        pairs = (
            (theirs.self_attn.in_proj_weight, ours.attention.qkv.weight),
            (theirs.self_attn.in_proj_bias, ours.attention.qkv.bias),
            (theirs.self_attn.out_proj.weight, ours.attention.output.weight),
            (theirs.self_attn.out_proj.bias, ours.attention.output.bias),
            (theirs.linear1.weight, ours.feed_forward.up.weight),
            (theirs.linear1.bias, ours.feed_forward.up.bias),
            (theirs.linear2.weight, ours.feed_forward.down.weight),
            (theirs.linear2.bias, ours.feed_forward.down.bias),
            (theirs.norm1.weight, ours.attention_norm.weight),
            (theirs.norm1.bias, ours.attention_norm.bias),
            (theirs.norm2.weight, ours.feed_forward_norm.weight),
            (theirs.norm2.bias, ours.feed_forward_norm.bias),
        )
        with torch.no_grad():
            for target, source in pairs:
                source.add_(0.1 * torch.randn_like(source))
                target.copy_(source)
    return stack


def sinusoid(position: int, dimension: int, width: int) -> float:
    angle = position / 10_000 ** ((dimension - dimension % 2) / width)
    return math.cos(angle) if dimension % 2 else math.sin(angle)


@pytest.mark.parametrize("ragged", [False, True])
def test_equals_torch(ragged: bool) -> None:
    encoder = TransformerEncoder(preset("transformer", "tiny", vocab_size=61, dropout=0.0, attention_dropout=0.0))
    stack = oracle_for(encoder)
    ids = torch.randint(0, 61, (4, 19))
    lengths = torch.tensor([19, 5, 11, 5]) if ragged else torch.full((4,), 19)
    mask = torch.arange(19) < lengths[:, None]
    width = encoder.config.width
    positions = torch.tensor([[sinusoid(p, d, width) for d in range(width)] for p in range(19)])
    embedded = encoder.word_table[ids] * math.sqrt(width) + positions
    expected = stack(embedded, src_key_padding_mask=~mask)
    hidden = encoder(ids, attention_mask=mask).hidden
    torch.testing.assert_close(hidden[mask], expected[mask], rtol=0.0, atol=1e-5)
    expected[mask].square().mean().backward()
    table_gradient, encoder.word_table.grad = encoder.word_table.grad, None
    hidden[mask].square().mean().backward()
    torch.testing.assert_close(encoder.word_table.grad, table_gradient, rtol=0.0, atol=1e-4)
