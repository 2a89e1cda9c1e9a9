"""The decoder: equal to torch's own Transformer, packed on both sides, and the same with a cache as without."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from spanlab.encoder import Decoder, DecoderCache, EncoderConfig, Memory, TransformerEncoder, preset
from spanlab.encoder.block import Block
from spanlab.errors import ConfigError, InputError

WIDTH, HEADS, WORDS = 32, 4, 50
SOURCES, TARGETS = [7, 3, 3, 11, 1], [4, 9, 9, 1, 6]


def configs(norm_place: Any, **changes: Any) -> tuple[EncoderConfig, EncoderConfig]:
    shape: dict[str, Any] = {"width": WIDTH, "layers": 2, "heads": HEADS, "inner_width": 48, "max_positions": 32}
    shape |= {"dropout": 0.0, "attention_dropout": 0.0, "init_std": 0.2, "final_norm": True, "norm_place": norm_place}
    encoder = preset("transformer", "tiny", vocab_size=WORDS, **shape)
    return encoder, replace(encoder, causal=True, **changes)


def build(norm_place: str = "post", *, own_words: bool = True, **changes: Any) -> tuple[TransformerEncoder, Decoder]:
    torch.manual_seed(1)
    encoder_config, decoder_config = configs(norm_place, **changes)
    encoder = TransformerEncoder(encoder_config)
    decoder = Decoder(decoder_config, memory_width=WIDTH, own_words=own_words)
    for module in (encoder, decoder):
        for parameter in module.parameters():  # zero biases and unit norms would hide mistakes
            parameter.data += 0.1 * torch.randn_like(parameter)
    return encoder.eval(), decoder.eval()


def draw(lengths: list[int], seed: int) -> Tensor:
    return torch.randint(1, WORDS, (sum(lengths),), generator=torch.Generator().manual_seed(seed))


def encode(encoder: TransformerEncoder, ids_N: Tensor, lengths: list[int]) -> Memory:
    return Memory.of(encoder(ids_N, lengths=torch.tensor(lengths)).hidden, lengths)


def copy_block(block: Block, layer: nn.Module) -> None:
    """torch's names from ours; its norms count the parts in order."""

    def copy(ours: nn.Module, theirs: nn.Module) -> None:
        theirs.load_state_dict(ours.state_dict())

    parts = [(block.attention_norm, "norm1"), (block.feed_forward_norm, "norm2")]
    layer.self_attn.in_proj_weight.data = block.attention.qkv.weight.data.clone()
    layer.self_attn.in_proj_bias.data = block.attention.qkv.bias.data.clone()
    copy(block.attention.output, layer.self_attn.out_proj)
    copy(block.feed_forward.up, layer.linear1)
    copy(block.feed_forward.down, layer.linear2)
    if block.cross_attention is not None:
        cross = block.cross_attention
        layer.multihead_attn.in_proj_weight.data = torch.cat([cross.query.weight, cross.key_value.weight]).data.clone()
        layer.multihead_attn.in_proj_bias.data = torch.cat([cross.query.bias, cross.key_value.bias]).data.clone()
        copy(cross.output, layer.multihead_attn.out_proj)
        parts = [(block.attention_norm, "norm1"), (block.cross_attention_norm, "norm2")]
        parts.append((block.feed_forward_norm, "norm3"))
    for norm, name in parts:
        copy(norm, getattr(layer, name))


def torch_transformer(encoder: TransformerEncoder, decoder: Decoder) -> nn.Transformer:
    pre = encoder.config.norm_place == "pre"
    theirs = nn.Transformer(WIDTH, HEADS, 2, 2, 48, 0.0, batch_first=True, norm_first=pre)
    for (block,), layer in zip(encoder.layers, theirs.encoder.layers, strict=True):
        copy_block(block, layer)
    for block, layer in zip(decoder.layers, theirs.decoder.layers, strict=True):
        copy_block(block, layer)
    theirs.encoder.norm.load_state_dict(encoder.final_norm.state_dict())
    theirs.decoder.norm.load_state_dict(decoder.final_norm.state_dict())
    return theirs.eval()


def padded(x_ND: Tensor, lengths: list[int]) -> Tensor:
    return nn.utils.rnn.pad_sequence(list(x_ND.split(lengths)), batch_first=True)


def padding(lengths: list[int]) -> Tensor:
    return torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]


@pytest.mark.parametrize("norm_place", ["post", "pre"])
def test_encoder_and_decoder_are_those_of_torch(norm_place: str) -> None:
    encoder, decoder = build(norm_place)
    theirs = torch_transformer(encoder, decoder)
    source_N, target_N = draw(SOURCES, 2), draw(TARGETS, 3)
    positions = [torch.cat([torch.arange(length) for length in lengths]) for lengths in (SOURCES, TARGETS)]
    source_ND = encoder.embeddings(source_N, positions[0]).requires_grad_()
    with torch.enable_grad():
        wanted_BTD = theirs(
            padded(source_ND, SOURCES),
            padded(decoder.embeddings(target_N, positions[1]), TARGETS),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(max(TARGETS)),
            src_key_padding_mask=padding(SOURCES),
            tgt_key_padding_mask=padding(TARGETS),
            memory_key_padding_mask=padding(SOURCES),
        )
        wanted_ND = torch.cat([row[:length] for row, length in zip(wanted_BTD, TARGETS, strict=True)])
        memory = encode(encoder, source_N, SOURCES)
        found_ND = decoder(target_N, torch.tensor(TARGETS), memory)
    torch.testing.assert_close(found_ND, wanted_ND, atol=1e-5, rtol=1e-5)
    wanted_ND.square().sum().backward()
    found_ND.square().sum().backward()
    ours, other = encoder.layers[0][0], theirs.encoder.layers[0]  # the gradient through the memory
    torch.testing.assert_close(ours.feed_forward.up.weight.grad, other.linear1.weight.grad, atol=1e-3, rtol=1e-3)
    cross, attention = decoder.layers[0].cross_attention, theirs.decoder.layers[0].multihead_attn
    grad = torch.cat([cross.query.weight.grad, cross.key_value.weight.grad])
    torch.testing.assert_close(grad, attention.in_proj_weight.grad, atol=1e-3, rtol=1e-3)


def test_attention_by_matrix_products_is_the_fused_one() -> None:
    """With dropout the weights are computed; at the smallest chance they are those of the fused kernel."""
    encoder, decoder = build()
    memory = encode(encoder, draw(SOURCES, 2), SOURCES)
    target_N, lengths_B = draw(TARGETS, 3), torch.tensor(TARGETS)
    wanted = decoder(target_N, lengths_B, memory)
    for block in decoder.layers:
        block.cross_attention.train()
        block.cross_attention.dropout = 1e-9
    torch.testing.assert_close(decoder(target_N, lengths_B, memory), wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "changes", [{}, {"positions": "learned"}, {"positions": "rotary"}, {"width": 48, "embedding_width": WIDTH}]
)
def test_sequences_of_a_batch_do_not_see_each_other(changes: dict[str, Any]) -> None:
    encoder, decoder = build(**changes)
    source_N, target_N = draw(SOURCES, 2), draw(TARGETS, 3)
    together = decoder(target_N, torch.tensor(TARGETS), encode(encoder, source_N, SOURCES)).split(TARGETS)
    sources, targets = source_N.split(SOURCES), target_N.split(TARGETS)
    for source, target, found in zip(sources, targets, together, strict=True):
        alone = decoder(target, torch.tensor([len(target)]), encode(encoder, source, [len(source)]))
        torch.testing.assert_close(found, alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("changes", [{}, {"positions": "learned"}, {"positions": "rotary"}])
def test_a_cache_changes_nothing(changes: dict[str, Any]) -> None:
    encoder, decoder = build(**changes)
    memory = encode(encoder, draw(SOURCES, 2), SOURCES)
    target_N = draw(TARGETS, 3)
    whole = decoder(target_N, torch.tensor(TARGETS), memory).split(TARGETS)
    targets = target_N.split(TARGETS)
    cache = DecoderCache(decoder, memory, 16)
    firsts = [1, 3, 2, 1, 6]  # pieces of different lengths, then token by token as long as there are some
    pieces = torch.cat([target[:first] for target, first in zip(targets, firsts, strict=True)])
    found = [[part] for part in decoder.extend(cache, pieces, torch.tensor(firsts)).split(firsts)]
    read, rows = list(firsts), list(range(5))
    while remaining := [row for row in rows if read[row] < TARGETS[row]]:
        cache.select([rows.index(row) for row in remaining])
        rows = remaining
        tokens = torch.stack([targets[row][read[row]] for row in rows])
        states = decoder.extend(cache, tokens, torch.ones(len(rows), dtype=torch.int64))
        for row, state in zip(rows, states, strict=True):
            found[row].append(state[None])
            read[row] += 1
    for row in range(5):
        torch.testing.assert_close(torch.cat(found[row]), whole[row], atol=1e-5, rtol=1e-5)


def test_beams_read_the_memory_of_their_source() -> None:
    encoder, decoder = build()
    memory = encode(encoder, draw(SOURCES, 2), SOURCES)
    cache = DecoderCache(decoder, memory, 8)
    decoder.extend(cache, torch.full((5,), 3), torch.ones(5, dtype=torch.int64))
    kept = [4, 1, 1, 4, 4, 3]  # sources 0 and 2 are finished, the others have beams, not side by side
    cache.select(kept)
    cache.select(range(6))
    second = torch.tensor([5, 6, 7, 8, 9, 10])
    found = decoder.extend(cache, second, torch.ones(6, dtype=torch.int64))
    assert cache.memory.lengths == (3, 11, 1)
    sources = draw(SOURCES, 2).split(SOURCES)
    for row, (source, token) in enumerate(zip(kept, second.tolist(), strict=True)):
        alone = encode(encoder, sources[source], [SOURCES[source]])
        wanted = decoder(torch.tensor([3, token]), torch.tensor([2]), alone)[1]
        torch.testing.assert_close(found[row], wanted, atol=1e-5, rtol=1e-5)


def test_the_words_of_the_encoder() -> None:
    encoder, decoder = build(own_words=False)
    assert not any("word" in name for name in decoder.state_dict())
    table = encoder.word_table
    memory = encode(encoder, draw(SOURCES, 2), SOURCES)
    ids = torch.tensor([4, 5])
    features = decoder(ids, torch.tensor([2]), Memory.of(memory.hidden_MA[:7], SOURCES[:1]), table)
    torch.testing.assert_close(decoder.logits(features, table), features @ table.T)
    other = decoder(ids, torch.tensor([2]), Memory.of(memory.hidden_MA[:7], SOURCES[:1]), 2 * table)
    assert not torch.allclose(features, other)


def test_bad_configs_and_memories() -> None:
    encoder_config, decoder_config = configs("post")
    with pytest.raises(ConfigError, match="causal"):
        Decoder(encoder_config, memory_width=WIDTH)
    with pytest.raises(ConfigError, match="share"):
        Decoder(replace(decoder_config, layer_groups=1), memory_width=WIDTH)
    with pytest.raises(InputError, match="a memory of 4 states, and sequences of 5 tokens"):
        Memory.of(torch.zeros(4, WIDTH), [2, 3])
