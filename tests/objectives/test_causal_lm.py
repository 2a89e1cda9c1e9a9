"""The causal objective: by hand, position by position, with transformers, and without a glimpse of what follows."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from spanlab.corruption.autoregressive import shifted
from spanlab.corruption.examples import ExampleBatch
from spanlab.encoder import CausalLMHead, Encoder, TransformerEncoder, load_model, preset
from spanlab.errors import ConfigError
from spanlab.objectives import TensorBatch, build_criterion
from tests.parity.models import CASES, VOCAB

ROWS = [[5, 6, 7, 8, 9, 10, 11], [12], [13, 14, 15], [16, 17, 18], [19, 20]]


def batch_of(rows: list[list[int]]) -> ExampleBatch:
    return shifted(np.arange(len(rows)), np.concatenate(rows), np.array([len(row) for row in rows]))


def encoder(system: str = "gpt", **changes: Any) -> Encoder:
    torch.manual_seed(2)
    return TransformerEncoder(preset(system, "tiny", vocab_size=VOCAB, init_std=0.2, **changes).without_dropout())


def by_hand(encoder: Encoder, rows: list[list[int]]) -> tuple[Tensor, int]:
    """One token at a time: the prefix is read alone, so nothing behind it can matter."""
    total, count = torch.zeros((), dtype=encoder.word_table.dtype), 0
    for row in rows:
        for place in range(1, len(row)):
            last = encoder(torch.tensor([row[:place]])).hidden[0, -1]
            scores = torch.stack([(last * vector).sum() for vector in encoder.word_table])
            total = total + torch.log(torch.exp(scores).sum()) - scores[row[place]]
            count += 1
    return total, count


@pytest.mark.parametrize("system", ["gpt", "gpt2"])
def test_loss_and_gradients_are_those_of_a_plain_loop(system: str) -> None:
    model = encoder(system).double()
    criterion: Any = build_criterion(model, {"clm": 1.0})
    loss = criterion(TensorBatch.from_examples(batch_of(ROWS)))
    expected, count = by_hand(model, ROWS)
    assert criterion.counts(batch_of(ROWS)) == {"clm": count} == {"clm": loss.parts["clm"].count}
    torch.testing.assert_close(loss.parts["clm"].total, expected)
    torch.testing.assert_close(loss.value, expected / count)
    ours = torch.autograd.grad(loss.value, list(model.parameters()), allow_unused=True)
    theirs = torch.autograd.grad(expected / count, list(model.parameters()), allow_unused=True)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-7)


@pytest.mark.parametrize(("name", "class_name"), [("gpt2", "GPT2LMHeadModel"), ("openai-gpt", "OpenAIGPTLMHeadModel")])
def test_the_loss_is_that_of_transformers(name: str, class_name: str, tmp_path: Any) -> None:
    theirs = CASES[name].build(class_name).eval()
    theirs.save_pretrained(tmp_path)
    model = load_model(tmp_path)
    row = list(range(5, 25))
    expected = theirs(input_ids=torch.tensor([row]), labels=torch.tensor([row])).loss
    criterion: Any = build_criterion(model.encoder, {"clm": 1.0}, heads=model.heads)
    loss = criterion(TensorBatch.from_examples(batch_of([row])))
    torch.testing.assert_close(loss.value, expected, atol=1e-5, rtol=1e-5)
    metrics = criterion.metrics(loss.parts)
    assert metrics["perplexity.clm"] == pytest.approx(expected.exp().item(), rel=1e-4)
    logits = theirs(input_ids=torch.tensor([row])).logits[0, :-1]
    assert metrics["accuracy.clm"] == pytest.approx((logits.argmax(-1) == torch.tensor(row[1:])).float().mean())


def test_what_follows_changes_no_prediction() -> None:
    model = encoder("gpt").double().eval()
    row = [5, 6, 7, 8, 9, 10]
    before = model(torch.tensor([row])).hidden[0]
    for changed in range(len(row)):
        other = [*row]
        other[changed] = 50
        after = model(torch.tensor([other])).hidden[0]
        same = ((before - after).abs() < 1e-12).all(dim=-1)
        assert same.tolist() == [place < changed for place in range(len(row))]


def test_a_matrix_of_its_own_is_used_and_trained() -> None:
    model = encoder("gpt")
    head = CausalLMHead(model.config, tied=False)
    criterion: Any = build_criterion(model, {"clm": 1.0}, heads={"clm": head})
    assert isinstance(criterion, nn.Module)
    criterion(TensorBatch.from_examples(batch_of(ROWS))).value.backward()
    assert head.decoder is not None
    assert head.decoder.grad is not None
    assert head.decoder.grad.abs().sum() > 0


def test_what_cannot_be_trained_so() -> None:
    with pytest.raises(ConfigError, match="needs a causal encoder, and this bert is not; use the gpt recipe"):
        build_criterion(encoder("bert"), {"clm": 1.0})
    with pytest.raises(ConfigError, match="'mlm' cannot be combined with clm"):
        build_criterion(encoder("gpt"), {"clm": 1.0, "mlm": 1.0})
