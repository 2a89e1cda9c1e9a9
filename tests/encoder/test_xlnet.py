"""XLNet's encoder: nobody learns what the order hides, whatever the way; packed as padded; refusals."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from spanlab.encoder import TransformerEncoder, XLNetEncoder, preset
from spanlab.encoder.config import SIZES
from spanlab.encoder.xlnet.attention_mask import AttentionMask
from spanlab.encoder.xlnet.relative_kernel import Operands, relative_attention
from spanlab.errors import ConfigError, InputError

VOCAB = 40
SHAPE = {"vocab_size": VOCAB, "width": 32, "heads": 2, "inner_width": 48}
DRY = {"dropout": 0.0, "attention_dropout": 0.0}


def small(layers: int = 3, **changes: object) -> XLNetEncoder:
    torch.manual_seed(5)
    encoder = XLNetEncoder(preset("xlnet", layers=layers, init_std=0.3, **{**SHAPE, **DRY, **changes}))
    return encoder.eval()


def reachable(visible_TT: Tensor, layers: int, *, queries: bool) -> Tensor:
    """(T, T) whether what stands at j can be known at i through so many blocks: itself counts for content alone."""
    content = visible_TT | torch.eye(len(visible_TT), dtype=torch.bool)
    known = torch.eye(len(visible_TT), dtype=torch.bool)
    for _ in range(layers - int(queries)):
        known = (content.float() @ known.float()) > 0
    return (visible_TT.float() @ known.float()) > 0 if queries else known


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), length=st.integers(2, 9), any_mask=st.booleans())
def test_no_leak_between_any_two_positions_in_either_stream(seed: int, length: int, any_mask: bool) -> None:
    """Every token is changed in turn; every place and token that may not know it stays the same.

    In double precision: how a row is rounded depends on where it stands in a batch, a leak does not.
    """
    encoder, generator = small().double(), torch.Generator().manual_seed(seed)
    rank = torch.randperm(length, generator=generator)
    visible = rank[None, :] < rank[:, None]
    if any_mask:  # not an order, but still who sees whom
        visible = torch.rand(length, length, generator=generator) < 0.3
    ids = torch.randint(0, VOCAB, (length,), generator=generator)
    changed = ids.repeat(length, 1)
    changed[torch.arange(length), torch.arange(length)] = (ids + 1) % VOCAB
    batch = torch.cat([ids[None], changed])
    everywhere = visible.expand(length + 1, -1, -1)
    places = torch.arange(length).expand(length + 1, -1)
    with torch.no_grad():
        query = encoder.read(batch, visible_BTT=everywhere, positions_BK=places).predicted_BKD
        content = encoder.read(batch, visible_BTT=everywhere).hidden_BTD
    assert query is not None
    assert content is not None
    for stream, may_know in (
        (query, reachable(visible, 3, queries=True)),
        (content, reachable(visible, 3, queries=False)),
    ):
        moved_JI = ((stream[1:] - stream[:1]).abs() > 1e-12).any(-1)
        assert not (moved_JI & ~may_know.T).any()
        assert torch.equal(moved_JI, may_know.T)  # and what may be known is used


def test_under_an_order_a_place_knows_those_before_it_and_no_others() -> None:
    """Nothing reaches a place on a detour through other tokens either."""
    rank = torch.randperm(8, generator=torch.Generator().manual_seed(2))
    assert torch.equal(reachable(rank[None, :] < rank[:, None], 3, queries=True), rank[None, :] < rank[:, None])


def test_memory_tells_of_the_past_only_what_was_kept() -> None:
    """A token of the segment before that was not kept is unknown; one that was kept is known to every place."""
    encoder = small(reuse=3).double()
    generator = torch.Generator().manual_seed(1)
    before, ids = torch.randint(0, VOCAB, (2, 1, 6), generator=generator)
    rank = torch.randperm(6, generator=generator)
    order = (rank[None, :] < rank[:, None])[None]
    # Blocks of the segment before see nothing but themselves, so that each memory place holds one token.
    alone = torch.zeros(1, 6, 6, dtype=torch.bool)
    for position in range(6):
        changed = before.clone()
        changed[0, position] = (changed[0, position] + 1) % VOCAB
        with torch.no_grad():
            outputs = [
                encoder.read(
                    ids,
                    visible_BTT=order,
                    positions_BK=torch.arange(6)[None],
                    memory_LBMD=encoder.read(text, visible_BTT=alone).memory_LBMD,
                ).predicted_BKD
                for text in (before, changed)
            ]
        assert outputs[0] is not None
        assert outputs[1] is not None
        moved = ((outputs[0] - outputs[1]).abs() > 1e-12).any(-1)
        assert moved.all() if position < 3 else not moved.any()


def test_no_gradient_goes_through_memory() -> None:
    encoder = small()
    ids = torch.randint(0, VOCAB, (2, 5))
    memory = encoder.read(ids).memory_LBMD
    assert not memory.requires_grad
    assert memory.shape == (3, 2, 5, 32)


def test_backwards_is_the_mirror_image() -> None:
    """A text read from its end is encoded as the text itself, turned round: distances count the other way."""
    encoder = small()
    ids = torch.randint(0, VOCAB, (2, 7))
    with torch.no_grad():
        forwards = encoder.read(ids).hidden_BTD
        backwards = encoder.read(ids.flip(1), backward_rows=2).hidden_BTD
    assert forwards is not None
    assert backwards is not None
    torch.testing.assert_close(backwards.flip(1), forwards, rtol=0, atol=1e-5)


def test_packed_equals_padded_on_either_side() -> None:
    encoder = small(pooler=True)
    lengths = torch.tensor([5, 2, 7, 5])
    rows = [torch.randint(0, VOCAB, (int(length),)) for length in lengths]
    segments = [torch.randint(0, 3, (int(length),)) for length in lengths]
    with torch.no_grad():
        packed = encoder(torch.cat(rows), token_type_ids=torch.cat(segments), lengths=lengths)
        for side in ("right", "left"):
            ids, kinds, mask = torch.full((4, 7), 5), torch.zeros(4, 7, dtype=torch.long), torch.zeros(4, 7)
            for row, (text, kind) in enumerate(zip(rows, segments, strict=True)):
                place = slice(0, len(text)) if side == "right" else slice(7 - len(text), 7)
                ids[row, place], kinds[row, place], mask[row, place] = text, kind, 1
            padded = encoder(ids, attention_mask=mask, token_type_ids=kinds)
            torch.testing.assert_close(padded.hidden[mask.bool()], packed.hidden, rtol=0, atol=1e-5)
            torch.testing.assert_close(padded.pooled, packed.pooled, rtol=0, atol=1e-5)
    assert encoder.pooler is not None
    last = packed.hidden[torch.cumsum(lengths, 0) - 1]
    torch.testing.assert_close(packed.pooled, torch.tanh(encoder.pooler(last)))


@pytest.mark.parametrize("places", [False, True])
@pytest.mark.parametrize("dropout_p", [0.0, 0.4])
def test_the_kernel_has_the_gradients_of_plain_autograd(places: bool, dropout_p: float) -> None:
    """In double precision, with segments, memory, hidden keys and a backward row; dropout as it fell."""
    torch.manual_seed(3)
    batch, heads, tokens, keys, width = 3, 2, 5, 7, 4
    positions_BQ = torch.tensor([[4, 0], [1, 2], [3, 3]]) if places else None
    queries = 2 if places else tokens
    shapes = [(batch, queries, heads, width), *[(batch, keys, heads, width)] * 2, (2, keys + tokens, heads, width)]
    shapes += [(heads, width), (heads, width), (batch, heads, queries)]
    tensors = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    hidden = torch.zeros(batch, 1, queries, keys, dtype=torch.float64).masked_fill_(
        torch.rand(batch, 1, queries, keys) < 0.3, -1e30
    )
    hidden[..., 0] = 0.0
    other = (torch.rand(batch, 1, queries, keys) < 0.5).double()
    mask = AttentionMask(
        tokens=tokens, bias_B1QS=hidden, other_segment_B1QS=other, positions_BQ=positions_BQ, backward_rows=1
    )
    operands = Operands(**dict(zip(Operands.__dataclass_fields__, tensors, strict=True)))
    context, weights = relative_attention(operands, mask, dropout_p=dropout_p, need_weights=True)
    assert weights is not None

    q, k, v, r, content_bias, position_bias, segment = tensors
    row = torch.arange(queries).expand(batch, -1) if positions_BQ is None else positions_BQ
    column = tokens - row[:, :, None] + torch.arange(keys)
    direction = torch.tensor([0, 0, 1])
    far = torch.einsum("bqhw,brhw->bhqr", q + position_bias, r[direction])
    near = torch.einsum("bqhw,bkhw->bhqk", q + content_bias, k)
    scores = (near + far.gather(3, column[:, None].expand(-1, heads, -1, -1))) / width**0.5
    plain = (scores + segment[..., None] * other + hidden).softmax(-1)
    kept = torch.ones_like(plain) if dropout_p == 0.0 else (weights > 0).double() / (1 - dropout_p)
    expected = torch.einsum("bhqk,bkhw->bqhw", plain * kept, v)
    torch.testing.assert_close(context, expected)
    torch.testing.assert_close(weights, plain * kept)
    upstream = torch.randn_like(expected)
    found = torch.autograd.grad(context, tensors, upstream)
    wanted = torch.autograd.grad(expected, tensors, upstream)
    torch.testing.assert_close(found, wanted)


def test_dropout_drops_its_share_and_keeps_the_expectation() -> None:
    torch.manual_seed(0)
    shape = (1, 400, 1, 2)
    operands = Operands(
        q_BQHW=torch.zeros(shape),
        k_BSHW=torch.zeros(shape),
        v_BSHW=torch.ones(shape),
        r_GRHW=torch.zeros(1, 800, 1, 2),
        content_bias_HW=torch.zeros(1, 2),
        position_bias_HW=torch.zeros(1, 2),
    )
    context, weights = relative_attention(operands, AttentionMask(tokens=400), dropout_p=0.25, need_weights=True)
    assert weights is not None
    assert (weights == 0).float().mean().item() == pytest.approx(0.25, abs=0.005)
    assert context.mean().item() == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_and_recomputed_layers_agree_with_plain_ones(dtype: torch.dtype) -> None:
    encoder, again = small().train(), small(checkpoint_layers=True).train()
    ids = torch.randint(0, VOCAB, (2, 6))
    places = torch.tensor([[1, 4], [0, 5]])
    gradients = []
    for model in (encoder, again):
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            predicted = model.read(ids, positions_BK=places).predicted_BKD
        assert predicted is not None
        predicted.float().square().mean().backward()
        gradients.append([p.grad for p in model.parameters()])
    torch.testing.assert_close(gradients[0], gradients[1])


@pytest.mark.parametrize("size", SIZES)
def test_sizes(size: str) -> None:
    config = preset("xlnet", size)
    assert (config.layers, config.width) == SIZES[size]
    assert config.heads == config.width // 64


def test_refusals() -> None:
    encoder = small()
    ids = torch.randint(0, VOCAB, (2, 4))
    with pytest.raises(InputError, match="no position_ids"):
        encoder(ids, position_ids=ids)
    with pytest.raises(InputError, match="sequence 1 of the batch has padding between"):
        encoder(ids, attention_mask=torch.tensor([[0, 1, 1, 0], [1, 0, 1, 1]]))
    with pytest.raises(ConfigError, match="'causal' is True; an xlnet encoder only has False"):
        XLNetEncoder(preset("xlnet", "tiny", causal=True))
    with pytest.raises(ConfigError, match="needs architecture=xlnet"):
        preset("bert", "tiny", positions="relative")
    with pytest.raises(ConfigError, match="use XLNetEncoder"):
        TransformerEncoder(encoder.config)
    with pytest.raises(ConfigError, match="'memory' is 0"):
        preset("xlnet", "tiny", memory=0)
