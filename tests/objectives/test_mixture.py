"""The weighted sum: exact weights, and the same gradient however a step is cut into pieces."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from spanlab.corruption.examples import ExampleBatch
from spanlab.encoder import (
    CausalLMHead,
    Electra,
    Encoder,
    SpanBoundaryConfig,
    SpanBoundaryHead,
    TransformerEncoder,
    load_model,
    preset,
    save_model,
)
from spanlab.errors import ConfigError, InputError
from spanlab.objectives import (
    Criterion,
    Encoded,
    Mixture,
    ObjectiveLoss,
    ReplacedToken,
    TensorBatch,
    build_criterion,
    project,
)
from spanlab.objectives.objective import token_metrics
from tests.objectives.batches import CLS, SEP, VOCAB, Masked, batch_of, random_sequences


def encoder(system: str = "bert", **changes: Any) -> Encoder:
    return TransformerEncoder(preset(system, "tiny", vocab_size=VOCAB, layers=1, **changes).without_dropout())


def criterion_of(kind: str) -> tuple[Any, list[Masked]]:
    """A system's objectives, and 32 sequences with very different numbers of masked tokens."""
    if kind == "electra":
        pair = Electra.build(preset("electra", "tiny", vocab_size=VOCAB, layers=1).without_dropout())
        return build_criterion(pair, {"mlm": 1.0, "rtd": 50.0}), random_sequences(32, longest=40)
    weights = {
        "spanbert": {"mlm": 1.0, "sbo": 0.7},
        "bert": {"mlm": 1.0, "nsp": 1.0},
        "albert": {"mlm": 1.0, "sop": 2.0},
    }
    options = SpanBoundaryConfig(max_span=4) if kind == "spanbert" else None
    built = build_criterion(encoder(kind), weights[kind], span_boundary=options)
    return built, random_sequences(32, longest=40, pairs=kind in {"bert", "albert"})


def gradients(criterion: nn.Module) -> list[Tensor]:
    found = [p.grad.clone() for p in criterion.parameters() if p.grad is not None]
    criterion.zero_grad()
    return found


@pytest.mark.parametrize("kind", ["bert", "spanbert", "albert", "electra"])
def test_four_batches_of_eight_equal_one_of_thirty_two(kind: str) -> None:
    criterion, sequences = criterion_of(kind)
    criterion.double()
    whole = batch_of(sequences)
    single = criterion(TensorBatch.from_examples(whole))
    single.value.backward()
    expected = gradients(criterion)

    parts = [batch_of(sequences[start : start + 8]) for start in range(0, 32, 8)]
    counts = {name: sum(criterion.counts(part)[name] for part in parts) for name in criterion.counts(whole)}
    assert counts == criterion.counts(whole)
    losses = []
    for part in parts:
        piece = criterion(TensorBatch.from_examples(part), counts)
        piece.value.backward()
        losses.append(piece)
    for ours, other in zip(gradients(criterion), expected, strict=True):
        torch.testing.assert_close(ours, other, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(sum(piece.value for piece in losses), single.value, rtol=1e-10, atol=0.0)

    summed = {name: losses[0].parts[name].detached() for name in counts}
    for piece in losses[1:]:
        summed = {name: summed[name] + piece.parts[name].detached() for name in counts}
    assert criterion.metrics(summed) == pytest.approx(criterion.metrics(single.parts))

    for part in parts:  # what this guards against: the mean of the batches' own means is another gradient
        (criterion(TensorBatch.from_examples(part)).value / 4).backward()
    distances = [(a - b).abs().max() for a, b in zip(gradients(criterion), expected, strict=True)]
    assert max(distances) > 1e-5


def test_the_loss_is_the_weighted_sum_of_means() -> None:
    criterion = build_criterion(encoder("spanbert"), {"mlm": 1.0, "sbo": 0.25})
    result = criterion(TensorBatch.from_examples(batch_of(random_sequences(4))))
    mlm, sbo = result.parts["mlm"], result.parts["sbo"]
    torch.testing.assert_close(result.value, mlm.total / mlm.count + 0.25 * sbo.total / sbo.count)
    assert mlm.count == sbo.count


def test_the_encoder_runs_once() -> None:
    model = encoder("spanbert")
    calls: list[int] = []
    model.register_forward_hook(lambda *_: calls.append(1))
    build_criterion(model, {"mlm": 1.0, "sbo": 1.0})(TensorBatch.from_examples(batch_of(random_sequences(2))))
    assert len(calls) == 1


def test_nothing_masked_is_a_loss_of_zero_that_can_be_differentiated() -> None:
    criterion = build_criterion(encoder("spanbert"), {"mlm": 1.0, "sbo": 1.0})
    result = criterion(TensorBatch.from_examples(batch_of([Masked(ids=(CLS, 5, 6, SEP))])))
    result.value.backward()
    assert result.value.item() == 0.0
    assert {name: part.count for name, part in result.parts.items()} == {"mlm": 0, "sbo": 0}
    assert criterion.metrics(result.parts) == {}
    assert isinstance(criterion, Mixture)
    assert all(p.grad is None or (p.grad == 0).all() for p in criterion.parameters())


def test_bf16_autocast_trains() -> None:
    criterion = build_criterion(encoder("spanbert"), {"mlm": 1.0, "sbo": 1.0})
    batch = TensorBatch.from_examples(batch_of(random_sequences(4)))
    exact = criterion(batch).value
    with torch.autocast("cpu", torch.bfloat16):
        loss = criterion(batch).value
    assert loss.dtype == torch.float32
    loss.backward()
    torch.testing.assert_close(loss, exact, rtol=0.01, atol=0.0)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"mlm": 1.0, "sb": 1.0}, r"unknown objective 'sb' \(did you mean 'sbo'\?\); use one of mlm, sbo"),
        ({"mlm": -0.5}, "the weight of 'mlm' is -0.5; it must be 0 or more"),
        ({"mlm": float("nan")}, "the weight of 'mlm' is nan"),
        ({"mlm": 0.0, "sbo": 0}, "every objective has weight 0, so there is nothing to train; give at least one"),
        ({}, "every objective has weight 0"),
        ({"rtd": 50.0, "mlm": 1.0}, "rtd objective needs a generator and a discriminator, and this is one encoder"),
        ({"nsp": 1.0, "sop": 1.0}, "a sentence pair has one label; set objectives.nsp=0"),
    ],
)
def test_weights_that_cannot_be_are_refused(weights: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_criterion(encoder(), weights)


def test_a_weight_for_an_objective_that_was_not_built_is_refused() -> None:
    mixture = build_criterion(encoder(), {"mlm": 1.0})
    assert isinstance(mixture, Mixture)
    with pytest.raises(ConfigError, match="unknown objective 'sbo'; use one of mlm"):
        Mixture(mixture.encoder, [mixture.objectives["mlm"]], {"mlm": 1.0, "sbo": 1.0})  # type: ignore[list-item]


def test_a_pair_takes_no_other_objective() -> None:
    pair = Electra.build(preset("electra", "tiny", vocab_size=VOCAB, layers=1))
    assert isinstance(build_criterion(pair, {"mlm": 1.0, "rtd": 50.0}), ReplacedToken)
    with pytest.raises(ConfigError, match="'sbo' cannot be combined with a generator and a discriminator"):
        build_criterion(pair, {"mlm": 1.0, "rtd": 50.0, "sbo": 1.0})


def test_data_without_targets_are_refused_before_training() -> None:
    criterion = build_criterion(encoder(), {"mlm": 1.0, "nsp": 1.0})
    criterion.require_targets(batch_of(random_sequences(2, pairs=True)))
    with pytest.raises(InputError, match="the nsp objective needs sentence pairs"):
        criterion.require_targets(batch_of(random_sequences(2)))


def test_an_objective_of_weight_zero_is_not_there() -> None:
    mixture = build_criterion(encoder("spanbert"), {"mlm": 1.0, "sbo": 0.0})
    assert isinstance(mixture, Mixture)
    assert set(mixture.heads) == {"mlm"}


def test_heads_are_saved_and_go_on_from_where_they_were(tmp_path: Path) -> None:
    batch = TensorBatch.from_examples(batch_of(random_sequences(3)))
    options = SpanBoundaryConfig(boundaries="internal", max_span=5)
    first = build_criterion(encoder("spanbert"), {"mlm": 1.0, "sbo": 1.0}, span_boundary=options)
    assert isinstance(first, Mixture)
    save_model(tmp_path, first.encoder, first.heads)
    model = load_model(tmp_path)
    for wanted in (None, options):
        again = build_criterion(model.encoder, {"mlm": 1.0, "sbo": 1.0}, heads=model.heads, span_boundary=wanted)
        assert torch.equal(again(batch).value, first(batch).value)
    with pytest.raises(ConfigError, match="head has boundaries=internal, but external is configured"):
        build_criterion(model.encoder, {"sbo": 1.0}, heads=model.heads, span_boundary=SpanBoundaryConfig(max_span=5))


def test_state_has_one_name_for_each_tensor() -> None:
    for kind in ("spanbert", "electra"):
        criterion, _ = criterion_of(kind)
        kept = {tensor.data_ptr() for tensor in criterion.state_dict().values()}
        shared = 0 if kind == "spanbert" else len(criterion.pair.generator.embeddings.state_dict())
        assert len(kept) == len(criterion.state_dict()) - shared


def test_a_narrow_word_table_of_transformers_is_projected_to() -> None:
    hf = pytest.importorskip("transformers")
    from spanlab.encoder.transformers_encoder import TransformersEncoder

    config = hf.ConvBertConfig(
        vocab_size=VOCAB,
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=48,
    )
    criterion: Criterion = build_criterion(
        TransformersEncoder(hf.AutoModel.from_config(config)), {"mlm": 1.0, "sbo": 1.0}
    )
    result = criterion(TensorBatch.from_examples(batch_of(random_sequences(3))))
    result.value.backward()
    assert result.value.isfinite()
    assert isinstance(criterion, Mixture)
    head = criterion.heads["sbo"]
    assert isinstance(head, SpanBoundaryHead)
    assert head.dense_out.weight.shape == (16, 32)


class NextToken(nn.Module):
    """An objective of another kind: a target at every position but the last of each sequence."""

    name = "clm"

    def __init__(self, head: CausalLMHead) -> None:
        super().__init__()
        self.head = head

    def count(self, examples: ExampleBatch) -> int:
        return len(examples.original_ids) - len(examples.lengths)

    def require_targets(self, examples: ExampleBatch) -> None:
        pass

    def forward(self, encoded: Encoded, batch: TensorBatch) -> ObjectiveLoss:
        last = np.zeros(len(batch.examples.original_ids), dtype=bool)
        last[np.cumsum(batch.examples.lengths) - 1] = True
        places = torch.from_numpy(np.flatnonzero(~last))
        result = project(encoded.hidden_ND[places], encoded.word_table_VE, None, batch.original_ids[places + 1])
        return ObjectiveLoss(total=result.total, count=len(places), tallies={"correct": result.correct})

    def metrics(self, loss: ObjectiveLoss) -> dict[str, float]:
        return token_metrics(loss)


def test_another_objective_fits_in() -> None:
    hf = pytest.importorskip("transformers")
    config = preset("gpt2", "tiny", vocab_size=VOCAB, layers=1).without_dropout()
    mixture = Mixture(TransformerEncoder(config), [NextToken(CausalLMHead(config))], {"clm": 1.0})
    sequences = [Masked(ids=one.ids) for one in random_sequences(3)]
    examples = batch_of(sequences)
    loss = mixture(TensorBatch.from_examples(examples))
    with tempfile.TemporaryDirectory() as folder:
        save_model(folder, mixture.encoder, mixture.heads)
        theirs = hf.GPT2LMHeadModel.from_pretrained(folder)
    total = 0.0
    for one in sequences:
        ids = torch.tensor([one.ids])
        total += theirs(input_ids=ids, labels=ids).loss.item() * (len(one.ids) - 1)
    assert mixture.counts(examples) == {"clm": sum(len(one.ids) - 1 for one in sequences)}
    assert loss.value.item() == pytest.approx(total / mixture.counts(examples)["clm"], rel=1e-5)


def test_arrays_that_cannot_be_written_to_are_copied() -> None:
    examples = batch_of(random_sequences(2))
    examples.original_ids.setflags(write=False)
    batch = TensorBatch.from_examples(examples)
    batch.original_ids[0] = 0
    assert examples.original_ids[0] == CLS
