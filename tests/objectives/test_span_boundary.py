"""The span boundary objective against plain loops, SpanBERT's published head, and its own limits."""

import argparse
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from spanlab.corruption.examples import SpanBoundaries
from spanlab.encoder import SpanBoundaryHead, TransformerEncoder, preset
from spanlab.encoder.pretrained.spanbert_release import read_spanbert_release
from spanlab.errors import InputError
from spanlab.objectives import Encoded, SpanBoundary, TensorBatch, encode
from tests.encoder.test_spanbert_release import VOCAB as RELEASE_VOCAB
from tests.encoder.test_spanbert_release import WIDTH as RELEASE_WIDTH
from tests.encoder.test_spanbert_release import pair_logits, release_state
from tests.objectives.batches import CLS, SEP, VOCAB, Masked, batch_of, random_sequences

WIDTH = 12
EDGES = Masked(ids=(CLS, 11, 12, 13, 14, 15, 16, SEP), spans=((1, 2), (5, 6)))
"""Spans at the first and at the last word: their neighbours are [CLS] and [SEP]."""


SIMPLE: dict[str, Any] = {
    "boundaries": "internal",
    "positions": False,
    "activation": "relu",
    "layers": 1,
    "norm": False,
    "bias": False,
    "tie": False,
}
"""softmax(W2 ReLU(W1 [h_start; h_end])): a span from its own ends."""


def plain_loops(
    head: SpanBoundaryHead, sequences: list[Masked], hidden: list[Tensor], table: Tensor, *, activation: Any
) -> list[Tensor]:
    """The cross-entropy of every masked token, one by one, written from the formula."""

    def norm(x: Tensor, layer: Any) -> Tensor:
        variance = sum((value - x.mean()) ** 2 for value in x) / len(x)
        return (x - x.mean()) / (variance + 1e-12) ** 0.5 * layer.weight + layer.bias

    losses = []
    for sequence, h in zip(sequences, hidden, strict=True):
        for first, last in sequence.spans:
            for place in range(first, last + 1):
                if head.config.span_limit is not None and place - first >= head.config.span_limit:
                    continue
                internal = head.config.boundaries == "internal"
                left, right = (h[first], h[last]) if internal else (h[first - 1], h[last + 1])
                x = torch.cat([left, right]) if head.config.combine == "concat" else left + right
                if head.position is not None:
                    position = head.position.weight[place - first]
                    x = x + position if head.config.combine == "sum-all" else torch.cat([x, position])
                for dense, layer_norm in ((head.dense_in, head.norm_in), (head.dense_out, head.norm_out)):
                    if dense is not None:
                        x = activation(dense.weight @ x + (0 if dense.bias is None else dense.bias))
                        x = x if layer_norm is None else norm(x, layer_norm)
                scores = (table if head.decoder is None else head.decoder) @ x
                scores = scores if head.bias is None else scores + head.bias
                losses.append(scores.exp().sum().log() - scores[sequence.ids[place]])
    return losses


def grads(parameters: list[Tensor]) -> list[Tensor]:
    found = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    assert all(grad is not None for grad in found)
    return [grad for grad in found if grad is not None]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_span": 3},
        {"combine": "sum"},
        {"boundaries": "internal"},
        {"boundaries": "internal", "activation": "relu", "max_span": None},
        SIMPLE,
        {"combine": "sum-all", "max_span": 4},
        {"inner_width": 30, "bias": False},
        {"layers": 1, "tie": False, "inner_width": 7, "combine": "sum"},
    ],
)
def test_equals_plain_loops(options: dict[str, Any]) -> None:
    sequences = [EDGES, *random_sequences(5)]
    batch = TensorBatch.from_examples(batch_of(sequences))
    head = SpanBoundaryHead(WIDTH, VOCAB, position_width=5, **options).double()
    if head.bias is not None:
        torch.nn.init.normal_(head.bias)
    tokens = sum(len(one.ids) for one in sequences)
    hidden, table = (torch.randn(n, WIDTH, dtype=torch.float64, requires_grad=True) for n in (tokens, VOCAB))
    learned = [hidden, *([table] if head.decoder is None else []), *head.parameters()]
    objective = SpanBoundary(head)
    loss = objective(Encoded(hidden_ND=hidden, pooled_BD=None, word_table_VE=table), batch)
    loss.total.backward()
    ours = grads(learned)

    activation = torch.relu if options.get("activation") == "relu" else torch.nn.functional.gelu
    split = list(hidden.split([len(one.ids) for one in sequences]))
    expected = plain_loops(head, sequences, split, table, activation=activation)
    assert loss.count == objective.count(batch.examples) == len(expected)
    torch.testing.assert_close(loss.total, torch.stack(expected).sum(), rtol=1e-10, atol=0.0)
    torch.stack(expected).sum().backward()
    for mine, other in zip(ours, grads(learned), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-9)


def test_a_span_beside_cls_or_sep_reads_them() -> None:
    batch = TensorBatch.from_examples(batch_of([EDGES, EDGES]))
    head = SpanBoundaryHead(WIDTH, VOCAB)
    hidden = torch.randn(16, WIDTH, requires_grad=True)
    table = torch.randn(VOCAB, WIDTH)
    SpanBoundary(head)(Encoded(hidden_ND=hidden, pooled_BD=None, word_table_VE=table), batch).total.backward()
    assert hidden.grad is not None
    touched = hidden.grad.abs().sum(1).nonzero().squeeze(1).tolist()
    assert touched == [0, 3, 4, 7, 8, 11, 12, 15]


def test_equals_the_published_pair_head_with_converted_weights(tmp_path: Path) -> None:
    state = release_state()
    path = tmp_path / "checkpoint.pt"
    torch.save({"model": state, "args": argparse.Namespace()}, path)
    model = read_spanbert_release(path)
    encoder, head = model.encoder.eval(), model.head("sbo")
    assert isinstance(head, SpanBoundaryHead)
    sequences = random_sequences(4, vocab=RELEASE_VOCAB)
    batch = TensorBatch.from_examples(batch_of(sequences))
    with torch.no_grad():
        encoded = encode(encoder, batch)
        loss = SpanBoundary(head)(encoded, batch)
        hidden = encoded.hidden_ND
        assert hidden.shape[1] == RELEASE_WIDTH
        logits = pair_logits(
            state, hidden[batch.boundaries.left], hidden[batch.boundaries.right], batch.boundaries.offsets
        )
        expected = torch.nn.functional.cross_entropy(logits, batch.boundaries.targets, reduction="sum")
    torch.testing.assert_close(loss.total, expected, rtol=1e-5, atol=0.0)
    assert int(loss.tallies["correct"]) == int((logits.argmax(-1) == batch.boundaries.targets).sum())


def test_tokens_beyond_the_position_table_have_no_target() -> None:
    long_span = Masked(ids=(CLS, *range(10, 30), SEP), spans=((1, 1), (3, 19)))
    examples = batch_of([long_span])
    for max_span, expected in ((20, 18), (17, 18), (16, 17), (15, 16), (1, 2), (None, 18)):
        assert SpanBoundary(SpanBoundaryHead(WIDTH, VOCAB, max_span=max_span)).count(examples) == expected


def test_the_simple_head_is_two_matrices() -> None:
    """The whole loss in four lines, with nothing of the head's own code."""
    examples = batch_of([EDGES])
    head = SpanBoundaryHead(WIDTH, VOCAB, **SIMPLE)
    hidden, unused_table = torch.randn(8, WIDTH), torch.randn(VOCAB, WIDTH)
    batch = TensorBatch.from_examples(examples)
    loss = SpanBoundary(head)(Encoded(hidden_ND=hidden, pooled_BD=None, word_table_VE=unused_table), batch)
    w1, w2 = head.dense_in.weight, head.decoder
    assert w2 is not None
    ends = torch.tensor([[1, 2], [1, 2], [5, 6], [5, 6]])
    logits = torch.relu(torch.cat([hidden[ends[:, 0]], hidden[ends[:, 1]]], dim=-1) @ w1.T) @ w2.T
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor([11, 12, 15, 16]), reduction="sum")
    torch.testing.assert_close(loss.total, expected, rtol=1e-5, atol=1e-5)


def test_works_on_the_hidden_states_of_any_encoder() -> None:
    hf = pytest.importorskip("transformers")
    config = hf.DistilBertConfig(vocab_size=VOCAB, dim=32, n_layers=1, n_heads=2, hidden_dim=48)
    from spanlab.encoder.transformers_encoder import TransformersEncoder

    encoder = TransformersEncoder(hf.AutoModel.from_config(config))
    batch = TensorBatch.from_examples(batch_of(random_sequences(3)))
    head = SpanBoundaryHead(32, VOCAB)
    loss = SpanBoundary(head)(encode(encoder, batch), batch)
    loss.total.backward()
    assert encoder.word_table.grad is not None
    assert encoder.word_table.grad.abs().sum() > 0


def test_nothing_masked_is_a_loss_of_zero() -> None:
    encoder = TransformerEncoder(preset("spanbert", "tiny", vocab_size=VOCAB, layers=1))
    batch = TensorBatch.from_examples(batch_of([Masked(ids=(CLS, 5, SEP))]))
    objective = SpanBoundary(SpanBoundaryHead(128, VOCAB))
    objective.require_targets(batch.examples)
    loss = objective(encode(encoder, batch), batch)
    loss.total.backward()
    assert (loss.total.item(), loss.count, objective.metrics(loss)) == (0.0, 0, {})
    assert all(p.grad is None or p.grad.isfinite().all() for p in encoder.parameters())


def test_masked_tokens_without_boundaries_are_refused() -> None:
    from dataclasses import replace

    examples = batch_of([EDGES])
    assert examples.boundaries is not None
    empty = SpanBoundaries(**{name: array[:0] for name, array in vars(examples.boundaries).items()})
    for bare in (replace(examples, boundaries=empty), replace(examples, boundaries=None)):
        with pytest.raises(InputError, match="no span boundaries for the sbo objective; use a masking law"):
            SpanBoundary(SpanBoundaryHead(WIDTH, VOCAB)).require_targets(bare)
