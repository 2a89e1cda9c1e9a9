"""The chunked projection is the plain one: same loss, same gradients, less memory; and it draws from its softmax."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from spanlab.objectives import project
from spanlab.objectives.chunked_cross_entropy import draw

WIDTH, VOCAB = 16, 97


def leaves(rows: int, dtype: torch.dtype = torch.float32, vocab: int = VOCAB) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Features, table and bias that want gradients, and targets."""
    generator = torch.Generator().manual_seed(rows)
    made = [torch.randn(*shape, generator=generator) for shape in ((rows, WIDTH), (vocab, WIDTH), (vocab,))]
    features, table, bias = (x.to(dtype).requires_grad_() for x in made)
    return features, table, bias, torch.randint(0, vocab, (rows,), generator=generator)


def plain(features: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(features, table, bias), targets, reduction="sum")


@pytest.mark.parametrize(
    ("dtype", "loss_tolerance", "grad_tolerance"), [(torch.float32, 1e-6, 1e-5), (torch.float64, 1e-14, 1e-13)]
)
@pytest.mark.parametrize("rows", [1, 7, 8, 9, 50])
def test_equals_linear_and_cross_entropy(
    rows: int, dtype: torch.dtype, loss_tolerance: float, grad_tolerance: float
) -> None:
    *ours, targets = leaves(rows, dtype)
    *theirs, _ = leaves(rows, dtype)
    result = project(*ours, targets, chunk_rows=8)
    expected = plain(*theirs, targets)
    torch.testing.assert_close(result.total, expected, rtol=loss_tolerance, atol=0.0)
    assert int(result.correct) == int((F.linear(*theirs).argmax(-1) == targets).sum())
    (result.total * 0.37).backward()
    (expected * 0.37).backward()
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.grad is not None
        assert other.grad is not None
        assert mine.grad.dtype == dtype
        scale = float(other.grad.abs().max())
        torch.testing.assert_close(mine.grad, other.grad, rtol=0.0, atol=grad_tolerance * scale)


@settings(deadline=None, max_examples=30)
@given(rows=st.integers(0, 40), chunk_rows=st.integers(1, 50))
def test_the_size_of_the_chunks_does_not_matter(rows: int, chunk_rows: int) -> None:
    features, table, bias, targets = leaves(rows, torch.float64)
    uniforms = torch.rand(rows, generator=torch.Generator().manual_seed(1))
    whole = project(features, table, bias, targets, uniforms_K=uniforms, chunk_rows=1000)
    parts = project(features, table, bias, targets, uniforms_K=uniforms, chunk_rows=chunk_rows)
    torch.testing.assert_close(parts.total, whole.total, rtol=1e-13, atol=0.0)
    assert int(parts.correct) == int(whole.correct)
    assert parts.sampled_K is not None
    assert whole.sampled_K is not None
    assert torch.equal(parts.sampled_K, whole.sampled_K)


def test_no_rows_give_a_loss_of_zero_and_gradients_of_zero() -> None:
    features, table, bias, targets = leaves(0)
    result = project(features, table, bias, targets, uniforms_K=torch.zeros(0))
    assert (result.total.item(), result.correct.item()) == (0.0, 0)
    result.total.backward()
    for leaf in (features, table, bias):
        assert leaf.grad is not None
        assert leaf.grad.abs().sum() == 0


def test_without_a_bias() -> None:
    features, table, _, targets = leaves(11)
    result = project(features, table, None, targets, chunk_rows=4)
    torch.testing.assert_close(result.total, plain(features, table, None, targets), rtol=1e-6, atol=0.0)
    result.total.backward()
    assert table.grad is not None


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_what_needs_no_gradient_gets_none(frozen: int) -> None:
    inputs = list(leaves(11))
    inputs[frozen] = inputs[frozen].detach()
    project(*inputs, chunk_rows=4).total.backward()
    assert [x.grad is None for x in inputs[:3]] == [place == frozen for place in range(3)]


def test_logits_of_any_size_stay_finite() -> None:
    features, table, bias, targets = leaves(9)
    result = project(features * 1e4, table, bias, targets, chunk_rows=4)
    result.total.backward()
    torch.testing.assert_close(result.total, plain(features * 1e4, table, bias, targets), rtol=1e-6, atol=0.0)
    assert features.grad is not None
    assert features.grad.isfinite().all()


def test_the_gradients_serve_one_backward_pass() -> None:
    *inputs, targets = leaves(5)
    total = project(*inputs, targets).total
    total.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="differentiated only once"):
        total.backward()


@pytest.mark.parametrize("weights", [torch.float32, torch.bfloat16])
def test_half_precision_is_as_close_as_the_plain_path(weights: torch.dtype) -> None:
    rows = 60
    *exact, targets = leaves(rows, torch.float64)
    plain(*exact, targets).backward()
    errors: dict[str, list[float]] = {}
    for name in ("ours", "plain"):
        inputs = [x.detach().to(weights).requires_grad_() for x in exact]
        with torch.autocast("cpu", torch.bfloat16, enabled=weights == torch.float32):
            if name == "ours":
                total = project(*inputs, targets, chunk_rows=16).total
            else:
                total = F.cross_entropy(F.linear(*inputs).float(), targets, reduction="sum")
        assert total.dtype == torch.float32
        total.backward()
        for mine, other in zip(inputs, exact, strict=True):
            assert mine.grad is not None
            assert other.grad is not None
            assert mine.grad.dtype == weights
            distance = (mine.grad.double() - other.grad).norm() / other.grad.norm()
            errors.setdefault(name, []).append(float(distance))
    assert max(errors["ours"]) < 0.02
    assert all(ours < 1.5 * theirs for ours, theirs in zip(errors["ours"], errors["plain"], strict=True)), errors


def test_autocast_leaves_double_precision_alone() -> None:
    *inputs, targets = leaves(9, torch.float64)
    with torch.autocast("cpu", torch.bfloat16):
        total = project(*inputs, targets).total
    torch.testing.assert_close(total, plain(*inputs, targets), rtol=1e-13, atol=0.0)


class LargestTensor(TorchDispatchMode):
    """Watches every operation, and keeps the size of the largest tensor that came out of one."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        self.operations: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.operations.append(str(func))
        for x in out if isinstance(out, tuple | list) else [out]:
            if isinstance(x, Tensor):
                self.bytes = max(self.bytes, x.untyped_storage().nbytes())
        return out


def test_no_tensor_grows_with_the_number_of_predicted_tokens() -> None:
    vocab, chunk = 4096, 8
    sizes = {}
    for rows in (40, 400):
        features, table, bias, targets = leaves(rows, vocab=vocab)
        with LargestTensor() as watch:
            project(features, table, bias, targets, uniforms_K=torch.rand(rows), chunk_rows=chunk).total.backward()
        sizes[rows] = watch.bytes
    largest = max(chunk * vocab, vocab * WIDTH) * 4
    assert sizes[40] == sizes[400] == largest
    with LargestTensor() as watch:
        plain(features, table, bias, targets).backward()
    assert watch.bytes == 400 * vocab * 4  # the watch does see what the plain path holds


def test_evaluation_does_no_work_for_gradients() -> None:
    *inputs, targets = leaves(30)
    with torch.no_grad(), LargestTensor() as evaluating:
        project(*inputs, targets, chunk_rows=8)
    with LargestTensor() as training:
        project(*inputs, targets, chunk_rows=8)
    products = {"aten.mm.default", "aten.addmm_.default"}
    assert products <= set(training.operations)
    assert not products & set(evaluating.operations)


def test_draws_follow_the_softmax() -> None:
    draws = 40_000
    features, table, bias, _ = leaves(1, torch.float64, vocab=40)
    with torch.no_grad():
        expected = F.softmax(F.linear(features, table * 0.5, bias), dim=-1)[0].numpy()
        result = project(
            features.expand(draws, -1),
            table * 0.5,
            bias,
            torch.zeros(draws, dtype=torch.long),
            uniforms_K=torch.from_numpy(np.random.default_rng(0).random(draws)),
        )
    assert result.sampled_K is not None
    found = np.bincount(result.sampled_K.numpy(), minlength=40)
    common = expected * draws >= 5
    found_cells, expected_cells = np.append(found[common], found[~common].sum()), expected * draws
    expected_cells = np.append(expected_cells[common], expected_cells[~common].sum())
    assert stats.chisquare(found_cells, expected_cells).pvalue > 1e-4


@settings(deadline=None, max_examples=100)
@given(
    weights=st.lists(st.integers(0, 5), min_size=1, max_size=9).filter(any),
    uniform=st.floats(0.0, 1.0, exclude_max=True),
)
def test_a_draw_is_the_first_id_whose_cumulative_share_exceeds_the_number(weights: list[int], uniform: float) -> None:
    shares = torch.tensor([weights], dtype=torch.float64) / sum(weights)
    expected = next(
        (place for place in range(len(weights)) if sum(weights[: place + 1]) / sum(weights) > uniform + 1e-12), None
    )
    drawn = int(draw(shares, torch.tensor([uniform], dtype=torch.float64)))
    edges = [abs(sum(weights[:place]) / sum(weights) - uniform) < 1e-9 for place in range(1, len(weights) + 1)]
    assert any(edges) or (drawn == expected and weights[drawn] > 0)


def test_a_number_that_rounds_to_one_draws_the_last_id() -> None:
    assert int(draw(torch.tensor([[0.5, 0.5]]), torch.tensor([1.0]))) == 1
