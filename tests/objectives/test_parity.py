"""Losses and gradients against transformers' own pre-training classes, on tiny random models."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("transformers")

from spanlab.encoder import Encoder, load_model
from spanlab.encoder.pretrained.config_json import LAYOUTS
from spanlab.encoder.pretrained.translate import encoder_rules, normalise, to_ours
from spanlab.objectives import MaskedLM, NextSentence, SentenceOrder, TensorBatch, encode
from spanlab.objectives.build import ON_ONE_ENCODER
from spanlab.objectives.replaced_token import detection_loss
from tests.objectives.batches import batch_of, random_sequences
from tests.parity.models import CASES, VOCAB


def padded(rows: Tensor, lengths: Tensor, fill: int) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(list(rows.split(lengths.tolist())), batch_first=True, padding_value=fill)


def their_inputs(batch: TensorBatch, pad_id: int) -> dict[str, Tensor]:
    ids = padded(batch.input_ids, batch.lengths, pad_id)
    given = {"input_ids": ids, "attention_mask": (torch.arange(ids.shape[1]) < batch.lengths[:, None]).long()}
    if batch.pairs is not None:
        given["token_type_ids"] = padded(batch.pairs.segment_ids, batch.lengths, 0)
    return given


def masked_labels(batch: TensorBatch) -> Tensor:
    labels = torch.full_like(batch.input_ids, -100)
    labels[batch.positions] = batch.targets
    return padded(labels, batch.lengths, -100)


def built(name: str, class_name: str, folder: Path) -> tuple[Any, Encoder, dict[str, Any]]:
    """A random model of transformers and the same in ours, objectives included."""
    theirs = CASES[name].build(class_name)
    theirs.save_pretrained(folder)
    model = load_model(folder)
    objectives = {head: ON_ONE_ENCODER[head].objective(model.head(head)) for head in CASES[name].classes[class_name]}
    return theirs.train(), model.encoder.train(), objectives


def assert_same_gradients(theirs: Any, encoder: Encoder, objectives: dict[str, Any]) -> None:
    """Every gradient of theirs, under our names, against ours."""
    layout = LAYOUTS[encoder.config.architecture]
    found = {name: p.new_zeros(p.shape) if p.grad is None else p.grad for name, p in theirs.named_parameters()}
    spelled = normalise(found, layout)
    expected = to_ours(spelled, encoder_rules(layout, encoder.config))[0]
    ours = dict(encoder.named_parameters())
    for name, objective in objectives.items():
        in_head = to_ours(spelled, layout.heads[name])[0]
        expected |= {f"{name}.{key}": grad for key, grad in in_head.items()}
        ours |= {f"{name}.{key}": p for key, p in objective.head.named_parameters()}
    for name, p in ours.items():
        grad = p.new_zeros(p.shape) if p.grad is None else p.grad
        scale = max(float(expected[name].abs().max()), 1e-3)
        torch.testing.assert_close(grad, expected[name], rtol=0.0, atol=1e-4 * scale, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize(
    ("name", "class_name"),
    [
        ("bert", "BertForMaskedLM"),
        ("bert-untied", "BertForMaskedLM"),
        ("roberta", "RobertaForMaskedLM"),
        ("albert", "AlbertForMaskedLM"),
        ("electra", "ElectraForMaskedLM"),
    ],
)
def test_mlm_loss_and_gradients(name: str, class_name: str, tmp_path: Path) -> None:
    theirs, encoder, objectives = built(name, class_name, tmp_path)
    objective = objectives["mlm"]
    assert isinstance(objective, MaskedLM)
    batch = TensorBatch.from_examples(batch_of(random_sequences(5, vocab=VOCAB)))
    expected = theirs(**their_inputs(batch, CASES[name].pad_id), labels=masked_labels(batch))
    expected.loss.backward()
    loss = objective(encode(encoder, batch), batch)
    (loss.total / loss.count).backward()
    torch.testing.assert_close(loss.total / loss.count, expected.loss, rtol=1e-5, atol=0.0)
    right = (expected.logits.argmax(-1) == masked_labels(batch)).sum()
    metrics = objective.metrics(loss)
    assert metrics["accuracy"] == pytest.approx(int(right) / loss.count)
    assert metrics["perplexity"] == pytest.approx(float(expected.loss.detach().exp()), rel=1e-4)
    assert_same_gradients(theirs, encoder, objectives)


@pytest.mark.parametrize(
    ("name", "class_name", "label_key", "kind"),
    [
        ("bert", "BertForPreTraining", "next_sentence_label", NextSentence),
        ("albert", "AlbertForPreTraining", "sentence_order_label", SentenceOrder),
    ],
)
def test_pair_loss_and_gradients(name: str, class_name: str, label_key: str, kind: type, tmp_path: Path) -> None:
    theirs, encoder, objectives = built(name, class_name, tmp_path)
    pair = next(objective for key, objective in objectives.items() if key != "mlm")
    assert isinstance(pair, kind)
    batch = TensorBatch.from_examples(batch_of(random_sequences(6, pairs=True, vocab=VOCAB)))
    given = their_inputs(batch, 0)
    expected = theirs(**given, labels=masked_labels(batch), **{label_key: batch.pairs.labels})
    expected.loss.backward()
    encoded = encode(encoder, batch)
    parts = {key: objective(encoded, batch) for key, objective in objectives.items()}
    mean = sum(part.total / part.count for part in parts.values())
    assert isinstance(mean, Tensor)
    mean.backward()
    torch.testing.assert_close(mean, expected.loss, rtol=1e-5, atol=0.0)
    assert_same_gradients(theirs, encoder, objectives)
    logits = next(value for key, value in expected.items() if "relationship" in key or "sop" in key)
    right = int((logits.argmax(-1) == batch.pairs.labels).sum())
    assert pair.metrics(parts[pair.name])["accuracy"] == right / 6


def test_discriminator_loss(tmp_path: Path) -> None:
    theirs = CASES["electra"].build("ElectraForPreTraining")
    theirs.save_pretrained(tmp_path)
    model = load_model(tmp_path)
    # One length, so that a mask of ones is the truth: with padding transformers' loss would leave it out.
    sequences = [one for one in random_sequences(200, vocab=VOCAB, longest=12) if len(one.ids) == 12][:4]
    batch = TensorBatch.from_examples(batch_of(sequences))
    labels_N = (torch.arange(len(batch.input_ids)) % 3 == 0).long()
    given = their_inputs(batch, 0)
    expected = theirs(**given, labels=labels_N.view(4, 12))
    logits = model.head("rtd")(encode(model.encoder, batch).hidden_ND)
    loss = detection_loss(logits, labels_N.bool())
    torch.testing.assert_close(loss.total / loss.count, expected.loss, rtol=1e-5, atol=0.0)
    torch.testing.assert_close(logits.view(4, 12), expected.logits, rtol=1e-4, atol=1e-5)
