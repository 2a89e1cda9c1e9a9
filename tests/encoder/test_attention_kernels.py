"""All ways to attend agree, and the fast dropout is a dropout."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from spanlab.encoder import attention_kernels
from spanlab.encoder.attention_kernels import attend
from spanlab.encoder.layers import dropout, scaled_mask
from spanlab.encoder.packing import Run

RUNS = (Run(2, 3), Run(1, 5), Run(3, 8))
TOKENS = sum(run.tokens for run in RUNS)


def by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool) -> torch.Tensor:
    """One sequence, one head, one token at a time."""
    out = torch.zeros_like(v)
    start = 0
    for length in [run.length for run in RUNS for _ in range(run.count)]:
        for i in range(start, start + length):
            last = i + 1 if causal else start + length
            for head in range(q.shape[1]):
                scores = torch.stack([q[i, head] @ k[j, head] for j in range(start, last)]) / q.shape[2] ** 0.5
                out[i, head] = scores.softmax(0) @ v[start:last, head]
        start += length
    return out.flatten(1)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
def test_equals_a_plain_loop(causal: bool, need_weights: bool) -> None:
    qkv = torch.randn(TOKENS, 3, 2, 4)
    q, k, v = qkv.unbind(1)
    attended = attend(qkv, RUNS, causal=causal, need_weights=need_weights)
    torch.testing.assert_close(attended.hidden_ND, by_hand(q, k, v, causal=causal), rtol=0.0, atol=1e-5)
    if need_weights:
        assert attended.weights is not None
        assert [tuple(weight.shape) for weight in attended.weights] == [(r.count, 2, r.length, r.length) for r in RUNS]
        for weight in attended.weights:
            torch.testing.assert_close(weight.sum(-1), torch.ones(weight.shape[:-1]))


def test_bf16_training_takes_the_matrix_path_and_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    qkv = torch.randn(TOKENS, 3, 2, 4, dtype=torch.bfloat16)
    results = {}
    for limit in (0, 256):
        monkeypatch.setattr(attention_kernels, "MATMUL_LENGTH_BF16", limit)
        leaf = qkv.clone().requires_grad_()
        context = attend(leaf, RUNS, causal=False).hidden_ND
        context.float().square().sum().backward()
        results[limit] = (context.detach(), leaf.grad)
    for fused, plain in zip(results[0], results[256], strict=True):
        torch.testing.assert_close(plain, fused, rtol=0.05, atol=0.05)


def test_the_share_dropped_is_right_and_the_mean_is_kept() -> None:
    count = 400_000
    for p in (0.1, 0.25, 0.5):
        mask = scaled_mask(torch.Size([count]), p, torch.float32)
        deviation = (p * (1 - p) / count) ** 0.5
        assert abs((mask == 0).float().mean().item() - p) < 5 * deviation
        assert mask.unique().tolist() == pytest.approx([0.0, 1 / (1 - p)], rel=1e-4)
        assert dropout(torch.ones(count), p, training=True).mean().item() == pytest.approx(1.0, abs=0.01)


def test_dropped_elements_are_independent_of_their_neighbours() -> None:
    x = (scaled_mask(torch.Size([400_000]), 0.5, torch.float32) > 0).float() - 0.5
    for lag in (1, 2, 3, 4, 5, 8):
        assert abs((x[:-lag] * x[lag:]).mean().item()) < 5 * 0.25 / 400_000**0.5


def test_dropout_follows_the_seed_and_lets_the_gradient_through() -> None:
    x = torch.randn(37, 5, requires_grad=True)
    torch.manual_seed(11)
    first = dropout(x, 0.3, training=True)
    torch.manual_seed(11)
    assert torch.equal(dropout(x, 0.3, training=True), first)
    first.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad != 0, first != 0)
    assert dropout(x, 0.3, training=False) is x
    assert dropout(x, 0.0, training=True) is x


def test_attention_dropout_keeps_the_expectation() -> None:
    qkv = torch.randn(6, 3, 1, 4)
    runs = (Run(1, 6),)
    expected = F.scaled_dot_product_attention(*(x.transpose(0, 1)[None] for x in qkv.unbind(1)))[0].transpose(0, 1)
    many = torch.stack([attend(qkv, runs, causal=False, dropout_p=0.2).hidden_ND for _ in range(3000)])
    torch.testing.assert_close(many.mean(0), expected.flatten(1), rtol=0.0, atol=0.06)


@pytest.mark.parametrize("length", [1, 2, 5, 9, 12, 13, 16, 17, 40])
def test_local_attention_by_blocks_equals_a_mask(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    reach = 4
    runs = (Run(2, length),)
    qkv = torch.randn(2 * length, 3, 2, 4, dtype=torch.float64)
    distance = (torch.arange(length) - torch.arange(length)[:, None]).abs()
    q, k, v = (x.view(2, length, 2, 4).transpose(1, 2) for x in qkv.unbind(1))
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=distance <= reach).transpose(1, 2).reshape(-1, 8)
    gradients = []
    for blocks_length in (0, 1_000):  # block by block, and by a mask
        monkeypatch.setattr(attention_kernels, "BLOCKS_LENGTH", blocks_length)
        leaf = qkv.clone().requires_grad_()
        attended = attend(leaf, runs, causal=False, reach=reach).hidden_ND
        torch.testing.assert_close(attended, expected)
        attended.square().sum().backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients)
    weights = attend(qkv, runs, causal=False, reach=reach, need_weights=True).weights
    assert weights is not None
    assert ((weights[0] > 0) == (distance <= reach)).all()


def test_local_attention_by_blocks_in_bf16_equals_a_mask() -> None:
    length, reach = attention_kernels.MATMUL_LENGTH_BF16 + 9, 4
    exact = torch.randn(length, 3, 2, 4, dtype=torch.bfloat16).double().requires_grad_()
    leaf = exact.detach().bfloat16().requires_grad_()
    distance = (torch.arange(length) - torch.arange(length)[:, None]).abs()
    q, k, v = exact.transpose(0, 2).unbind(1)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=distance <= reach).transpose(0, 1).flatten(1)
    expected.square().sum().backward()
    attended = attend(leaf, (Run(1, length),), causal=False, reach=reach).hidden_ND
    attended.square().sum().backward()
    assert leaf.grad is not None
    assert exact.grad is not None
    torch.testing.assert_close(attended.double(), expected, rtol=0.0, atol=0.03)
    torch.testing.assert_close(leaf.grad.double(), exact.grad, rtol=0.05, atol=0.15)


class LargestTensor(TorchDispatchMode):
    """Notes the largest tensor that any operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN204
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.untyped_storage().nbytes() // tensor.element_size())
        return result


@pytest.mark.parametrize("training", [False, True])
def test_local_attention_makes_nothing_that_grows_with_the_square_of_the_length(training: bool) -> None:
    largest = []
    for length in (256, 1024):
        qkv = torch.randn(length, 3, 1, 4, requires_grad=training)
        with LargestTensor() as mode:
            attended = attend(qkv, (Run(1, length),), causal=False, reach=4).hidden_ND
            if training:
                attended.sum().backward()
        largest.append(mode.elements)
    assert largest[1] <= 4 * largest[0]
