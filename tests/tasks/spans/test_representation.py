"""Spans against plain loops: which there are, what their vectors are, and that the short ways give the same."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from spanlab.errors import ConfigError
from spanlab.tasks.spans.config import SpanConfig
from spanlab.tasks.spans.representation import SpanRepresentation, Spans, span_softmax
from spanlab.tasks.spans.units import enumerate_spans

WIDTH = 8
KINDS = [
    (ends, inside)
    for ends, inside in product(("concatenated", "networks", "none"), ("none", "mean", "max", "attention"))
    if (ends, inside) != ("none", "none")
]


def some_spans(tokens: int = 12, max_width: int = 5) -> Spans:
    return Spans.of(*enumerate_spans(np.array([0, 7]), np.array([7, tokens - 7]), max_width))


def representation(ends: str, inside: str, **changes: int) -> SpanRepresentation:
    config = SpanConfig(ends=ends, inside=inside, network_width=6, **changes)  # type: ignore[arg-type]
    return SpanRepresentation(WIDTH, config, init_std=0.5).eval()


@given(lengths=st.lists(st.integers(0, 6), max_size=5), gap=st.integers(0, 3), max_width=st.integers(1, 8))
def test_all_spans_within_ranges(lengths: list[int], gap: int, max_width: int) -> None:
    starts = np.cumsum([gap] + [length + gap for length in lengths])[: len(lengths)].astype(np.int64)
    first, last = enumerate_spans(starts, np.array(lengths, dtype=np.int64), max_width)
    expected = [
        (a, b)
        for start, length in zip(starts.tolist(), lengths, strict=True)
        for a in range(start, start + length)
        for b in range(a, min(a + max_width, start + length))
    ]
    assert list(zip(first.tolist(), last.tolist(), strict=True)) == expected


def vector_of_one(module: SpanRepresentation, hidden: Tensor, a: int, b: int) -> Tensor:
    """The definition, one span at a time."""
    parts, inside = [], hidden[a : b + 1]
    if module.config.ends == "concatenated":
        parts += [hidden[a], hidden[b]]
    elif module.config.ends == "networks":
        assert module.start_network is not None
        assert module.end_network is not None
        parts += [module.start_network(hidden[a]), module.end_network(hidden[b])]
    if module.config.inside == "attention":
        assert module.attention is not None
        parts.append(torch.softmax(module.attention(inside), 0).T[0] @ inside)
    elif module.config.inside != "none":
        parts.append(inside.mean(0) if module.config.inside == "mean" else inside.amax(0))
    if module.widths is not None:
        parts.append(module.widths.weight[min(b - a + 1, module.config.max_width) - 1])
    return torch.cat(parts)


@pytest.mark.parametrize(("ends", "inside"), KINDS)
@pytest.mark.parametrize("width_features", [0, 3])
def test_vectors_are_what_they_are_defined_as(ends: str, inside: str, width_features: int) -> None:
    module = representation(ends, inside, width_features=width_features, max_width=4)
    hidden, spans = torch.randn(12, WIDTH), some_spans()
    pairs = zip(spans.first_S.tolist(), spans.last_S.tolist(), strict=True)
    expected = torch.stack([vector_of_one(module, hidden, a, b) for a, b in pairs])
    assert expected.shape == (len(spans), module.features)
    torch.testing.assert_close(module(hidden, spans), expected, rtol=0.0, atol=1e-5)


@pytest.mark.parametrize(("ends", "inside"), KINDS)
def test_projecting_at_tokens_is_projecting_the_vectors(ends: str, inside: str) -> None:
    module = representation(ends, inside, width_features=3)
    layer, spans = nn.Linear(module.features, 5), some_spans()
    weight = torch.randn(len(spans), 5)
    results = []
    for project in (lambda hidden: layer(module(hidden, spans)), lambda hidden: module.project(hidden, spans, layer)):
        torch.manual_seed(3)
        hidden = torch.randn(12, WIDTH, requires_grad=True)
        module.zero_grad()
        layer.zero_grad()
        out = project(hidden)
        (out * weight).sum().backward()
        gradients = [p.grad.clone() for p in (*module.parameters(), *layer.parameters()) if p.grad is not None]
        results.append([out.detach(), hidden.grad, *gradients])
    assert len(results[0]) == len(results[1]) == 4 + sum(1 for _ in module.parameters())
    for plain, short in zip(*results, strict=True):
        torch.testing.assert_close(short, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("ends", "inside"), KINDS)
def test_half_precision_trains(ends: str, inside: str) -> None:
    module = representation(ends, inside, width_features=3).train()
    layer, hidden, spans = nn.Linear(module.features, 5), torch.randn(12, WIDTH), some_spans()
    exact = layer(module.eval()(hidden, spans))
    with torch.autocast("cpu", torch.bfloat16):
        out = module.project((hidden @ torch.eye(WIDTH)).bfloat16(), spans, layer)
    assert (out - exact).abs().max() < 0.05 * exact.abs().max()
    out.float().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in module.parameters() if p.grad is not None)


@given(counts=st.lists(st.integers(1, 5), min_size=1, max_size=6), scale=st.sampled_from([1.0, 1e3, 1e30]))
@settings(max_examples=50)
def test_softmax_within_spans(counts: list[int], scale: float) -> None:
    scores = torch.randn(sum(counts)) * scale
    expected = torch.cat([torch.softmax(part, 0) for part in scores.split(counts)])
    torch.testing.assert_close(span_softmax(scores, torch.tensor(counts)), expected)


def test_no_span_no_vector() -> None:
    spans = Spans.of(*enumerate_spans(np.array([0]), np.array([0]), 3))
    for ends, inside in KINDS:
        module = representation(ends, inside)
        assert module(torch.randn(4, WIDTH), spans).shape == (0, module.features)
        assert module.project(torch.randn(4, WIDTH), spans, nn.Linear(module.features, 5)).shape == (0, 5)


def test_a_span_must_be_told_something() -> None:
    with pytest.raises(ConfigError, match="neither ends nor inside"):
        SpanConfig(ends="none", inside="none")
