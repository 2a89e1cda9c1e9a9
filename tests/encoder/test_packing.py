"""Padded, packed and one at a time: the same numbers, whatever the lengths and wherever the padding."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spanlab.encoder import SYSTEMS, Encoder, build_encoder, preset
from spanlab.encoder.packing import pack, pack_lengths
from spanlab.errors import InputError

VOCAB = 50
LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=7)


def tiny(system: str, **changes: object) -> Encoder:
    dry = {"dropout": 0.0, "attention_dropout": 0.0}
    return build_encoder(preset(system, "tiny", vocab_size=VOCAB, max_positions=16, **dry, **changes))


ENCODERS = {system: tiny(system).eval() for system in SYSTEMS}


@given(lengths=LENGTHS, system=st.sampled_from(sorted(SYSTEMS)))
@settings(max_examples=40, deadline=None)
def test_packed_equals_padded_equals_alone(lengths: list[int], system: str) -> None:
    encoder = ENCODERS[system]
    sequences = [torch.randint(3, VOCAB, (length,)) for length in lengths]
    padded_ids = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True, padding_value=encoder.config.pad_id or 0)
    mask = torch.arange(padded_ids.shape[1]) < torch.tensor(lengths)[:, None]
    with torch.no_grad():
        padded = encoder(padded_ids, attention_mask=mask)
        packed = encoder(torch.cat(sequences), lengths=torch.tensor(lengths))
        alone = torch.cat([encoder(sequence[None]).hidden[0] for sequence in sequences])
    torch.testing.assert_close(packed.hidden, padded.hidden[mask], rtol=0.0, atol=1e-5)
    torch.testing.assert_close(packed.hidden, alone, rtol=0.0, atol=1e-5)
    if packed.pooled is not None:
        torch.testing.assert_close(packed.pooled, padded.pooled, rtol=0.0, atol=1e-5)


@given(lengths=LENGTHS)
@settings(max_examples=50, deadline=None)
def test_flatten_and_restore_are_inverse(lengths: list[int]) -> None:
    width = max(lengths)
    # Padding in front, and the tokens of each sequence told apart by their values.
    mask = torch.arange(width) >= width - torch.tensor(lengths)[:, None]
    values = torch.arange(1, mask.numel() + 1).view(*mask.shape, 1)
    packing = pack(mask)
    flat = packing.flatten(values)
    assert flat.shape[0] == sum(lengths)
    assert torch.equal(packing.restore(flat), values * mask.unsqueeze(-1))
    assert [run.length for run in packing.runs] == sorted(set(lengths))
    packed = pack_lengths(sum(lengths), torch.tensor(lengths))
    row = torch.arange(sum(lengths)).unsqueeze(1)
    assert torch.equal(packed.restore(packed.flatten(row)), row)
    starts = torch.cumsum(torch.tensor(lengths), 0) - torch.tensor(lengths)
    assert torch.equal(packed.flatten(row)[packed.first_tokens(row.device), 0], starts)


def test_gradients_of_packed_and_padded_agree() -> None:
    encoder = tiny("bert")
    lengths = torch.tensor([7, 3, 3, 12])
    mask = torch.arange(12) < lengths[:, None]
    ids = torch.randint(3, VOCAB, (4, 12))
    weight = torch.randn(int(lengths.sum()), encoder.config.width)
    gradients = []
    for hidden in (encoder(ids, attention_mask=mask).hidden[mask], encoder(ids[mask], lengths=lengths).hidden):
        encoder.zero_grad()
        (hidden * weight).mean().backward()
        gradients.append([p.grad.clone() for p in encoder.parameters() if p.grad is not None])
    for padded, packed in zip(*gradients, strict=True):
        torch.testing.assert_close(packed, padded, rtol=0.0, atol=1e-4)


def test_sequences_do_not_see_each_other() -> None:
    encoder = tiny("bert").double().eval()
    ids, lengths = torch.randint(3, VOCAB, (10,)), torch.tensor([4, 6])
    with torch.no_grad():
        before = encoder(ids, lengths=lengths).hidden
        ids[7] = 3 + (ids[7] - 2) % (VOCAB - 3)
        after = encoder(ids, lengths=lengths).hidden
    torch.testing.assert_close(before[:4], after[:4], rtol=0.0, atol=1e-12)
    assert not torch.allclose(before[4:], after[4:])


def test_packed_attention_weights_have_the_users_order() -> None:
    encoder = ENCODERS["roberta"]
    ids, lengths = torch.randint(3, VOCAB, (9,)), torch.tensor([5, 1, 3])
    with torch.no_grad():
        attentions = encoder(ids, lengths=lengths, output_attentions=True).attentions
        alone = encoder(ids[None, 6:], output_attentions=True).attentions
    assert attentions is not None
    assert alone is not None
    assert attentions[0].shape == (3, encoder.config.heads, 5, 5)
    torch.testing.assert_close(attentions[1][2, :, :3, :3], alone[1][0], rtol=0.0, atol=1e-6)
    assert attentions[0][1, :, 0, 0].tolist() == [1.0] * encoder.config.heads


def test_inputs_embeds_and_position_ids() -> None:
    encoder = ENCODERS["bert"]
    ids = torch.randint(3, VOCAB, (2, 6))
    with torch.no_grad():
        expected = encoder(ids).hidden
        torch.testing.assert_close(encoder(inputs_embeds=encoder.word_table[ids]).hidden, expected)
        torch.testing.assert_close(encoder(ids, position_ids=torch.arange(6).expand(2, 6)).hidden, expected)
        moved = encoder(ids, position_ids=torch.arange(3, 9).expand(2, 6)).hidden
    assert not torch.allclose(moved, expected)


def test_a_head_mask_silences_a_head() -> None:
    encoder = ENCODERS["bert"]
    ids = torch.randint(3, VOCAB, (2, 6))
    heads, layers = encoder.config.heads, encoder.config.layers
    mask = torch.ones(layers, heads)
    with torch.no_grad():
        torch.testing.assert_close(encoder(ids, head_mask=mask).hidden, encoder(ids).hidden)
        mask[0, 1] = 0.0
        masked = encoder(ids, head_mask=mask, output_attentions=True)
        assert masked.attentions is not None
        assert (masked.attentions[0][:, 1] == 0).all()
        assert (masked.attentions[1][:, 1] > 0).all()
        # Cutting the head's columns out of the output projection is the same thing.
        kept = encoder.layers[0][0].attention.output.weight.clone()
        width = encoder.config.head_width
        encoder.layers[0][0].attention.output.weight[:, width : 2 * width] = 0.0
        torch.testing.assert_close(masked.hidden, encoder(ids).hidden)
        encoder.layers[0][0].attention.output.weight.copy_(kept)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either input_ids or inputs_embeds"),
        ({"input_ids": torch.full((1, 3), VOCAB)}, f"input_ids holds {VOCAB}, outside the vocabulary of {VOCAB}"),
        ({"input_ids": torch.full((1, 3), -1)}, "input_ids holds -1"),
        ({"input_ids": torch.ones(1, 17).long()}, "17 tokens, but the encoder has 16 positions"),
        ({"input_ids": torch.ones(1, 3).long(), "token_type_ids": torch.full((1, 3), 2)}, "token_type_ids holds 2"),
        ({"input_ids": torch.ones(1, 3).long(), "token_type_ids": torch.ones(1, 2).long()}, "token_type_ids has shape"),
        ({"input_ids": torch.ones(1, 3).long(), "position_ids": torch.full((1, 3), 16)}, "position_ids holds 16"),
        ({"input_ids": torch.ones(2, 3).long(), "attention_mask": torch.ones(2, 4)}, "attention_mask has shape"),
        ({"input_ids": torch.ones(2, 3).long(), "attention_mask": torch.tensor([[1, 1, 1], [0, 0, 0]])}, "sequence 1"),
        ({"input_ids": torch.ones(5).long(), "lengths": torch.tensor([2, 2])}, "lengths add up to 4"),
        ({"input_ids": torch.ones(5).long()}, "1 token axes"),
    ],
)
def test_bad_batches_are_refused(arguments: dict[str, torch.Tensor], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ENCODERS["bert"](**arguments)


def test_an_encoder_without_segments_refuses_them() -> None:
    ids = torch.ones(1, 3).long()
    with pytest.raises(InputError, match="has no segments"):
        ENCODERS["gpt2"](ids, token_type_ids=ids)
