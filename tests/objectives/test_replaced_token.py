"""ELECTRA's joint objective: what is drawn, what the discriminator sees and is asked, and where gradients go."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import stats

from spanlab.encoder import Electra, preset
from spanlab.errors import InputError
from spanlab.objectives import ReplacedToken, TensorBatch, encode
from spanlab.objectives.replaced_token import detection_loss, detection_metrics
from tests.objectives.batches import CLS, SEP, VOCAB, Masked, batch_of, random_sequences


def small_pair(vocab: int = VOCAB) -> Electra:
    return Electra.build(preset("electra", "tiny", vocab_size=vocab, layers=1).without_dropout(), generator_share=0.5)


def record_inputs(pair: Electra) -> list[torch.Tensor]:
    """The ids that the discriminator was given, call by call."""
    seen: list[torch.Tensor] = []
    pair.discriminator.register_forward_pre_hook(lambda _module, args: seen.append(args[0]))
    return seen


def test_both_losses_are_what_their_parts_say() -> None:
    pair = small_pair().double()
    criterion = ReplacedToken(pair)
    seen = record_inputs(pair)
    batch = TensorBatch.from_examples(batch_of(random_sequences(6)))
    result = criterion(batch)
    (filled,) = seen

    hidden = pair.generator(batch.input_ids, lengths=batch.lengths).hidden[batch.positions]
    logits = pair.generator_head(hidden, pair.generator.word_table)
    generator = F.cross_entropy(logits, batch.targets)
    cumulative = logits.softmax(-1).cumsum(-1)
    drawn = (cumulative <= batch.sampling_uniforms[:, None].double()).sum(-1)
    assert torch.equal(filled[batch.positions], drawn)
    elsewhere = torch.ones_like(filled, dtype=torch.bool)
    elsewhere[batch.positions] = False
    assert torch.equal(filled[elsewhere], batch.original_ids[elsewhere])

    labels = filled != batch.original_ids
    verdict = pair.discriminator_head(pair.discriminator(filled, lengths=batch.lengths).hidden)
    discriminator = F.binary_cross_entropy_with_logits(verdict, labels.double())
    torch.testing.assert_close(result.value, generator + 50.0 * discriminator, rtol=1e-12, atol=0.0)
    assert criterion.counts(batch.examples) == {"mlm": len(batch.positions), "rtd": len(filled)}
    metrics = criterion.metrics(result.parts)
    assert metrics["loss.mlm"] == pytest.approx(generator.item())
    assert metrics["accuracy.mlm"] == pytest.approx((logits.argmax(-1) == batch.targets).double().mean().item())
    assert metrics["accuracy.rtd"] == pytest.approx(((verdict > 0) == labels).double().mean().item())


def test_no_gradient_goes_through_the_draw() -> None:
    pair = Electra.build(
        preset("electra", "tiny", vocab_size=VOCAB, layers=1), generator_share=0.5, share_embeddings=False
    )
    criterion = ReplacedToken(pair, {"mlm": 0.0, "rtd": 50.0})
    criterion(TensorBatch.from_examples(batch_of(random_sequences(3)))).value.backward()
    touched = [name for name, p in pair.generator.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0]
    assert touched == []
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in pair.discriminator.parameters())


def test_shared_embeddings_learn_from_both() -> None:
    pair = small_pair()
    batch = TensorBatch.from_examples(batch_of(random_sequences(3)))
    gradients = []
    for weights in ({"mlm": 1.0}, {"rtd": 50.0}, {"mlm": 1.0, "rtd": 50.0}):
        pair.zero_grad()
        ReplacedToken(pair, weights)(batch).value.backward()
        assert pair.discriminator.word_table.grad is not None
        gradients.append(pair.discriminator.word_table.grad.clone())
    torch.testing.assert_close(gradients[0] + gradients[1], gradients[2], rtol=1e-4, atol=1e-6)


def test_draws_have_the_law_of_gumbel_sampling() -> None:
    """Over many examples, the drawn token follows the generator's softmax; so does the maximum of Gumbel noise."""
    vocab, copies = 12, 6000
    pair = small_pair(vocab).eval()
    torch.nn.init.normal_(pair.generator_head.bias)
    seen = record_inputs(pair)
    sequence = Masked(ids=(CLS, 5, 6, 7, SEP), spans=((2, 2),))
    examples = batch_of([sequence] * copies)
    uniforms = np.random.default_rng(0).random(copies)
    batch = TensorBatch.from_examples(replace(examples, sampling_uniforms=uniforms))
    with torch.no_grad():
        ReplacedToken(pair)(batch)
        hidden = encode(pair.generator, batch).hidden_ND[2:3]
        logits = pair.generator_head(hidden, pair.generator.word_table)[0].double()
    drawn = np.bincount(seen[0][batch.positions].numpy(), minlength=vocab)
    law = logits.softmax(-1).numpy()
    assert stats.chisquare(drawn, law / law.sum() * copies).pvalue > 1e-4
    gumbel = logits - torch.log(-torch.log(torch.rand(copies, vocab, dtype=torch.float64)))
    noisy = np.bincount(gumbel.argmax(-1).numpy(), minlength=vocab)
    assert stats.chi2_contingency([drawn, noisy]).pvalue > 1e-4


def test_the_draw_depends_on_the_example_and_not_on_the_batch() -> None:
    pair = small_pair().double().eval()
    seen = record_inputs(pair)
    sequences = random_sequences(6)
    with torch.no_grad():
        for group in (sequences, sequences[:2], sequences[2:]):
            ReplacedToken(pair)(TensorBatch.from_examples(batch_of(group)))
    assert torch.equal(seen[0], torch.cat(seen[1:]))


def test_precision_and_recall_are_of_the_replaced() -> None:
    verdict = torch.tensor([2.0, 1.0, -1.0, -3.0, 0.5, -0.5])
    replaced = torch.tensor([True, False, True, False, True, False])
    metrics = detection_metrics(detection_loss(verdict, replaced))
    assert metrics["accuracy"] == pytest.approx(4 / 6)
    assert metrics["precision"] == pytest.approx(2 / 3)
    assert metrics["recall"] == pytest.approx(2 / 3)
    silent = detection_metrics(detection_loss(-verdict.abs(), replaced))
    assert (silent["precision"], silent["recall"]) == (0.0, 0.0)


def test_nothing_masked_still_trains_the_discriminator() -> None:
    criterion = ReplacedToken(small_pair())
    result = criterion(TensorBatch.from_examples(batch_of([Masked(ids=(CLS, 5, 6, SEP))])))
    result.value.backward()
    assert (result.parts["mlm"].total.item(), result.parts["mlm"].count) == (0.0, 0)
    assert result.parts["rtd"].count == 4
    assert result.value.isfinite()


def test_collapsed_spans_are_refused() -> None:
    examples = batch_of(random_sequences(2))
    collapsed = replace(examples, offsets=np.zeros_like(examples.positions))
    with pytest.raises(InputError, match=r"spans were collapsed; set masking\.collapse=false"):
        ReplacedToken(small_pair())(TensorBatch.from_examples(collapsed))
