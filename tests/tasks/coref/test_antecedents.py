"""Antecedents: every tensor against the formula written out in loops, in double precision."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from spanlab.tasks.coref.antecedents import (
    Antecedents,
    CoarseScorer,
    FineScorer,
    Refinement,
    compare_spelling,
    distance_bucket,
    marginal_loss,
)

FEATURES = 5


def bucket(distance: int) -> int:
    edges = [0, 1, 2, 3, 4, 5, 8, 16, 32, 64]
    return max(number for number, edge in enumerate(edges) if distance >= edge)


def doubled(module: torch.nn.Module) -> torch.nn.Module:
    """In double precision, with weights that are not all but zero."""
    torch.manual_seed(0)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return module.double().eval()


def some_vectors(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, FEATURES, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def keys(count: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 3, (count, 2), generator=torch.Generator().manual_seed(seed))


def test_buckets_double_from_five_on() -> None:
    distances = list(range(200))
    assert distance_bucket(torch.tensor(distances)).tolist() == [bucket(distance) for distance in distances]


@pytest.mark.parametrize("rows", [1, 3, 100])
@pytest.mark.parametrize(("keep", "reach"), [(4, 100), (2, 3), (20, 100), (1, 1)])
@pytest.mark.parametrize("spelling", [False, True])
def test_coarse_scores_are_those_of_a_loop(rows: int, keep: int, reach: int, spelling: bool) -> None:
    scorer = doubled(CoarseScorer(FEATURES, 3, spelling=spelling, dropout=0.3))
    assert isinstance(scorer, CoarseScorer)
    assert scorer.distances is not None
    assert scorer.prior is not None
    vectors, mention, spelt = some_vectors(11), torch.randn(11, dtype=torch.float64), keys(11)
    found = scorer.choose(vectors, mention, spelt, keep=keep, reach=reach, rows=rows)
    assert found.index_MK.shape == (11, keep)
    for i in range(11):
        scores = {}
        for j in range(max(0, i - reach), i):
            prior = scorer.prior(scorer.distances.weight[bucket(i - j)]).item()
            scores[j] = (scorer.bilinear(vectors[i]) @ vectors[j] + mention[i] + mention[j]).item() + prior
            if scorer.spellings is not None:
                same = 2 if spelt[i, 1] == spelt[j, 1] else int(spelt[i, 0] == spelt[j, 0])
                scores[j] += scorer.spellings.weight[same].item()
        best = sorted(scores, key=lambda j: -scores[j])[:keep]
        assert found.index_MK[i, : len(best)].tolist() == best
        assert found.score_MK[i, : len(best)].tolist() == pytest.approx([scores[j] for j in best])
        assert found.valid_MK[i].tolist() == [True] * len(best) + [False] * (keep - len(best))
        assert (found.score_MK[i, len(best) :] == -math.inf).all()


@pytest.mark.parametrize("rows", [1, 4, 100])
def test_fine_scores_are_those_of_the_network_on_everything_side_by_side(rows: int) -> None:
    scorer = doubled(FineScorer(FEATURES, {"distance": 10, "speaker": 2}, property_width=3, inner_width=7, dropout=0.3))
    assert isinstance(scorer, FineScorer)
    vectors = some_vectors(9)
    index = torch.randint(0, 9, (9, 4), generator=torch.Generator().manual_seed(1))
    properties = {"distance": index % 10, "speaker": index % 2}
    antecedents = Antecedents(index_MK=index, valid_MK=index >= 0, score_MK=index.double())
    found = scorer(vectors, antecedents, properties, rows=rows)
    for i in range(9):
        for k, j in enumerate(index[i].tolist()):
            told = [scorer.properties[name].weight[properties[name][i, k]] for name in ("distance", "speaker")]
            joined = torch.cat([vectors[i], vectors[j], vectors[i] * vectors[j], *told])
            expected = scorer.outer(torch.relu(scorer.inner(joined)))
            assert found[i, k].item() == pytest.approx(expected.item())


@st.composite
def scored_clusters(draw: st.DrawFn) -> tuple[list[int], list[list[int]], list[list[float]]]:
    """The clusters of mentions (0 for none), their antecedents, and scores."""
    clusters = draw(st.lists(st.integers(0, 3), min_size=1, max_size=7))
    antecedents = [draw(st.permutations(range(i)))[:3] for i in range(len(clusters))]
    numbers = st.floats(-6, 6)
    scores = [[draw(numbers) for _ in chosen] for chosen in antecedents]
    return clusters, [list(chosen) for chosen in antecedents], scores


def padded(rows: list[list[float]], filling: float) -> Tensor:
    return torch.tensor([[*row, *[filling] * (3 - len(row))] for row in rows], dtype=torch.float64)


@settings(max_examples=200, deadline=None)
@given(scored_clusters())
def test_the_marginal_likelihood_is_that_of_a_loop(case: tuple[list[int], list[list[int]], list[list[float]]]) -> None:
    clusters, antecedents, scores = case
    gold = [
        [float(clusters[i] > 0 and clusters[i] == clusters[j]) for j in chosen] for i, chosen in enumerate(antecedents)
    ]
    score_MK = padded(scores, -math.inf).requires_grad_()
    total, right = marginal_loss(score_MK, padded(gold, 0.0) > 0)
    expected, correct = 0.0, 0
    for i in range(len(clusters)):
        options = [(0.0, not any(gold[i])), *zip(scores[i], map(bool, gold[i]), strict=True)]
        whole = sum(math.exp(score) for score, _ in options)
        expected -= math.log(sum(math.exp(score) for score, wanted in options if wanted) / whole)
        correct += max(options, key=lambda option: option[0])[1]
    assert total.item() == pytest.approx(expected, abs=1e-9)
    assert int(right) == correct
    total.backward()
    assert score_MK.grad is not None
    assert torch.isfinite(score_MK.grad).all()


def test_a_refined_vector_is_that_of_a_loop() -> None:
    refinement = doubled(Refinement(FEATURES))
    vectors = some_vectors(6)
    index = torch.tensor([[0, 0], [0, 0], [1, 0], [2, 1], [0, 3], [4, 2]])
    score = torch.randn(6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    score[0], score[1, 1] = -math.inf, -math.inf
    found = refinement(vectors, index, score)
    for i in range(6):
        raised = [1.0, *(math.exp(value) for value in score[i].tolist())]
        members = [vectors[i], *(vectors[j] for j in index[i].tolist())]
        attended = torch.zeros(FEATURES, dtype=torch.float64)
        for weight, vector in zip(raised, members, strict=True):
            attended = attended + weight / sum(raised) * vector
        gate = torch.sigmoid(refinement.gate(torch.cat([vectors[i], attended])))
        expected = gate * attended + (1 - gate) * vectors[i]
        assert torch.allclose(found[i], expected, rtol=1e-10)


def test_spelling_is_none_the_last_token_or_all() -> None:
    own = torch.tensor([[1, 5], [1, 5], [1, 5]])
    other = torch.tensor([[2, 6], [1, 6], [1, 5]])
    assert compare_spelling(own, other).tolist() == [0, 1, 2]
