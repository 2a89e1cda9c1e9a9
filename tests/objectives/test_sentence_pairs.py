"""Pairs: what is asked of them, and what is refused."""

from dataclasses import replace

import pytest
import torch

from spanlab.encoder import SentencePairHead, TransformerEncoder, preset
from spanlab.errors import ConfigError, InputError
from spanlab.objectives import Encoded, NextSentence, SentenceOrder, TensorBatch, encode
from tests.objectives.batches import VOCAB, batch_of, random_sequences

CONFIG = preset("bert", "tiny", vocab_size=VOCAB, layers=1)


def test_an_unlabelled_pair_is_left_out() -> None:
    sequences = random_sequences(5, pairs=True)
    some = [replace(one, pair_label=-1) if place in {1, 3} else one for place, one in enumerate(sequences)]
    batch = TensorBatch.from_examples(batch_of(some))
    objective = SentenceOrder(SentencePairHead(CONFIG))
    pooled = torch.randn(5, 128, requires_grad=True)
    encoded = Encoded(hidden_ND=torch.zeros(1, 128), pooled_BD=pooled, word_table_VE=torch.zeros(1, 128))
    loss = objective(encoded, batch)
    loss.total.backward()
    logits = objective.head(pooled.detach())
    expected = [logits[place].logsumexp(0) - logits[place, some[place].pair_label] for place in (0, 2, 4)]
    torch.testing.assert_close(loss.total, torch.stack(expected).sum())
    assert loss.count == objective.count(batch.examples) == 3
    assert pooled.grad is not None
    assert pooled.grad[[1, 3]].abs().sum() == 0


def test_pairs_none_of_which_has_a_label_are_a_loss_of_zero() -> None:
    sequences = [replace(one, pair_label=-1) for one in random_sequences(3, pairs=True)]
    batch = TensorBatch.from_examples(batch_of(sequences))
    objective = NextSentence(SentencePairHead(CONFIG))
    loss = objective(encode(TransformerEncoder(CONFIG), batch), batch)
    loss.total.backward()
    assert (loss.total.item(), loss.count, objective.metrics(loss)) == (0.0, 0, {})


def test_single_segments_are_refused() -> None:
    batch = TensorBatch.from_examples(batch_of(random_sequences(2)))
    objective = NextSentence(SentencePairHead(CONFIG))
    with pytest.raises(
        InputError, match="needs sentence pairs, but the examples have one segment; read the data as sentence"
    ):
        objective(encode(TransformerEncoder(CONFIG), batch), batch)


def test_an_encoder_without_a_pooler_is_refused() -> None:
    batch = TensorBatch.from_examples(batch_of(random_sequences(2, pairs=True)))
    encoder = TransformerEncoder(preset("bert", "tiny", vocab_size=VOCAB, layers=1, pooler=False))
    with pytest.raises(ConfigError, match=r"the sop objective needs an encoder with a pooler; set encoder\.pooler"):
        SentenceOrder(SentencePairHead(CONFIG))(encode(encoder, batch), batch)
