"""Reading a sequence piece by piece through a cache gives what reading it at once gives."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spanlab.encoder import Encoder, KeyValueCache, TransformerEncoder, preset
from spanlab.errors import InputError

VOCAB = 53


def causal_encoder(system: str = "gpt2", **changes: Any) -> Encoder:
    torch.manual_seed(1)
    changes = {"vocab_size": VOCAB, "init_std": 0.3, "max_positions": 32, **changes}
    return TransformerEncoder(preset(system, "tiny", **changes).without_dropout()).eval().double()


def read_in_pieces(encoder: Encoder, sequences: list[list[int]], cuts: list[list[int]]) -> list[torch.Tensor]:
    """The hidden states of each sequence, read in pieces of the sizes in `cuts`, one list for each sequence."""
    cache = KeyValueCache(encoder.config, len(sequences), max(map(len, sequences)), dtype=torch.float64)
    done = [0] * len(sequences)
    states: list[list[torch.Tensor]] = [[] for _ in sequences]
    for sizes in zip(*cuts, strict=True):
        pieces = [ids[a : a + size] for ids, a, size in zip(sequences, done, sizes, strict=True)]
        flat = torch.tensor([token for piece in pieces for token in piece])
        hidden = encoder.extend(cache, flat, torch.tensor(sizes))
        for row, part in enumerate(hidden.split(list(sizes))):
            states[row].append(part)
            done[row] += sizes[row]
    return [torch.cat(parts) for parts in states]


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["gpt", "gpt2"]),
    st.lists(st.lists(st.integers(1, 4), min_size=4, max_size=4), min_size=1, max_size=5),
    st.integers(0, 100),
)
def test_pieces_of_any_size_equal_the_whole(system: str, cuts: list[list[int]], seed: int) -> None:
    encoder = causal_encoder(system)
    generator = torch.Generator().manual_seed(seed)
    sequences = [torch.randint(0, VOCAB, (sum(sizes),), generator=generator).tolist() for sizes in cuts]
    for ids, states in zip(sequences, read_in_pieces(encoder, sequences, cuts), strict=True):
        whole = encoder(torch.tensor([ids])).hidden[0]
        torch.testing.assert_close(states, whole, atol=1e-10, rtol=1e-8)


@pytest.mark.parametrize(
    "changes",
    [
        {"positions": "rotary"},
        {"layer_groups": 1, "inner_layers": 2, "layers": 3},
        {"positions": "sinusoidal", "embedding_width": 64},
    ],
)
def test_every_kind_of_position_and_shared_layers(changes: dict[str, Any]) -> None:
    encoder = causal_encoder("gpt2", **changes)
    sequences = [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10]]
    for ids, states in zip(sequences, read_in_pieces(encoder, sequences, [[3, 1, 2], [1, 2, 1]]), strict=True):
        torch.testing.assert_close(states, encoder(torch.tensor([ids])).hidden[0], atol=1e-10, rtol=1e-8)


def test_rows_can_be_dropped_and_doubled() -> None:
    encoder = causal_encoder()
    cache = KeyValueCache(encoder.config, 3, 6, dtype=torch.float64)
    encoder.extend(cache, torch.tensor([1, 2, 3, 4, 5, 6]), torch.tensor([1, 2, 3]))
    cache.select([2, 0, 2])
    hidden = encoder.extend(cache, torch.tensor([7, 8, 9]), torch.tensor([1, 1, 1]))
    for row, ids in enumerate([[4, 5, 6, 7], [1, 8], [4, 5, 6, 9]]):
        torch.testing.assert_close(hidden[row], encoder(torch.tensor([ids])).hidden[0, -1], atol=1e-10, rtol=1e-8)


def test_in_single_precision_too() -> None:
    encoder = causal_encoder(init_std=0.1).float()
    cache = KeyValueCache(encoder.config, 1, 6)
    ids = torch.tensor([1, 2, 3, 4, 5, 6])
    parts = [encoder.extend(cache, ids[:4], torch.tensor([4])), encoder.extend(cache, ids[4:], torch.tensor([2]))]
    torch.testing.assert_close(torch.cat(parts), encoder(ids[None]).hidden[0], atol=1e-5, rtol=1e-5)


def test_what_cannot_be_kept() -> None:
    with pytest.raises(InputError, match="is not causal"):
        KeyValueCache(preset("bert", "tiny"), 1, 4)
    encoder = causal_encoder()
    cache = KeyValueCache(encoder.config, 2, 3)
    with pytest.raises(InputError, match="would have 4 tokens; the cache holds 3"):
        encoder.extend(cache, torch.tensor([1, 2, 3, 4, 5]), torch.tensor([1, 4]))
    with pytest.raises(InputError, match="1 sequences are continued, and the cache holds 2"):
        encoder.extend(cache, torch.tensor([1]), torch.tensor([1]))
    assert cache.lengths == [0, 0]
    long = KeyValueCache(encoder.config, 1, 40)
    encoder.extend(long, torch.ones(32, dtype=torch.int64), torch.tensor([32]))
    with pytest.raises(InputError, match="position_ids holds 32, outside the position table"):
        encoder.extend(long, torch.tensor([1]), torch.tensor([1]))
