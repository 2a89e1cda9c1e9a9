"""A prefix that sees itself in both directions: who sees whom, whatever the path, the packing or the cache."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from spanlab.encoder import Encoder, KeyValueCache, TransformerEncoder, preset
from spanlab.errors import InputError

VOCAB = 40


def make(system: str = "gpt2", **changes: object) -> Encoder:
    torch.manual_seed(1)
    shape = {"width": 16, "heads": 2, "layers": 2, "inner_width": 32, "max_positions": 24, "init_std": 0.3, **changes}
    config = preset(system, "tiny", vocab_size=VOCAB, dropout=0.0, attention_dropout=0.0, **shape)
    return TransformerEncoder(config).double().eval()


MODEL = make()


def encode(encoder: Encoder, ids: list[list[int]], prefixes: list[int] | None) -> list[Tensor]:
    """The hidden states of each sequence of a packed batch."""
    lengths = [len(each) for each in ids]
    flat = torch.tensor([token for each in ids for token in each])
    given_prefixes = None if prefixes is None else torch.tensor(prefixes)
    out = encoder(flat, lengths=torch.tensor(lengths), prefix_lengths=given_prefixes)
    return list(out.hidden.split(lengths))


SEQUENCES = st.lists(
    st.lists(st.integers(0, VOCAB - 2), min_size=1, max_size=9).flatmap(
        lambda ids: st.tuples(st.just(ids), st.integers(0, len(ids)))
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=25, deadline=None)
@given(SEQUENCES)
def test_no_token_sees_what_it_may_not(batch: list[tuple[list[int], int]]) -> None:
    """Every pair of positions: a change of one shows in the other exactly where it may be seen."""
    ids, prefixes = [list(each) for each, _ in batch], [prefix for _, prefix in batch]
    with torch.no_grad():
        before = encode(MODEL, ids, prefixes)
        for number, (own, prefix) in enumerate(zip(ids, prefixes, strict=True)):
            for changed in range(len(own)):
                other = [list(each) for each in ids]
                other[number][changed] += 1
                after = encode(MODEL, other, prefixes)
                for sequence, (old, new) in enumerate(zip(before, after, strict=True)):
                    differs = (old - new).abs().amax(dim=1) > 1e-12
                    seen = [
                        sequence == number and (changed <= place or (changed < prefix)) for place in range(len(old))
                    ]
                    assert differs.tolist() == seen


def test_no_prefix_is_causal_and_all_prefix_is_not() -> None:
    ids = [[1, 2, 3, 4], [5, 6]]
    whole = make(causal=False)
    whole.load_state_dict(MODEL.state_dict())
    for prefixes, wanted in (([0, 0], encode(MODEL, ids, None)), ([4, 2], encode(whole, ids, None))):
        for one, other in zip(encode(MODEL, ids, prefixes), wanted, strict=True):
            torch.testing.assert_close(one, other)


def test_every_path_and_packing_says_the_same() -> None:
    ids, prefixes = [[1, 2, 3, 4, 5], [6, 7], [8, 9, 10]], [3, 2, 0]
    packed = encode(MODEL, ids, prefixes)
    padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(each) for each in ids], batch_first=True)
    mask = torch.tensor([[place < len(each) for place in range(5)] for each in ids])
    by_matmul = MODEL(padded, attention_mask=mask, prefix_lengths=torch.tensor(prefixes), output_attentions=True)
    for number, each in enumerate(ids):
        torch.testing.assert_close(by_matmul.hidden[number, : len(each)], packed[number])
        torch.testing.assert_close(encode(MODEL, [each], [prefixes[number]])[0], packed[number])
    assert by_matmul.attentions is not None
    assert (by_matmul.attentions[0][0] > 0).all(dim=0).tolist() == [
        [True, True, True, False, False],
        [True, True, True, False, False],
        [True, True, True, False, False],
        [True, True, True, True, False],
        [True] * 5,
    ]


def test_a_cache_reads_a_prefix_at_once() -> None:
    ids, prefixes = [[1, 2, 3, 4, 5], [6, 7, 8]], [3, 2]
    whole = encode(MODEL, ids, prefixes)
    cache = KeyValueCache(MODEL.config, 2, 8, dtype=torch.float64)
    first = MODEL.extend(cache, torch.tensor([1, 2, 3, 6, 7]), torch.tensor([3, 2]), torch.tensor(prefixes))
    second = MODEL.extend(cache, torch.tensor([4, 5, 8]), torch.tensor([2, 1]))
    torch.testing.assert_close(torch.cat([first[:3], second[:2]]), whole[0])
    torch.testing.assert_close(torch.cat([first[3:], second[2:]]), whole[1])


def test_prefixes_that_cannot_be() -> None:
    with pytest.raises(InputError, match="this bert is not causal; leave it out"):
        encode(make("bert"), [[1, 2]], [1])
    with pytest.raises(InputError, match=r"has shape \(2,\); it must be \(1,\)"):
        encode(MODEL, [[1, 2]], [1, 1])
    with pytest.raises(InputError, match="longer than its sequence"):
        encode(MODEL, [[1, 2]], [3])
