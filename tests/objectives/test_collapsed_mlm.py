"""MLM where a mask stands for a span: every token against a plain loop, and what a model folder keeps of it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from spanlab.corruption import ExampleBatch, Masking, MaskingConfig, RandomTokens
from spanlab.encoder import MaskedLMHead, TransformerEncoder, load_model, preset, save_model
from spanlab.errors import InputError
from spanlab.objectives import Encoded, MaskedLM, Mixture, TensorBatch, build_criterion, encode
from tests.corruption.batches import MASK, SPECIAL, random_batch

VOCAB = 500


def collapsed_examples(seed: int = 0) -> ExampleBatch:
    config = MaskingConfig(collapse=True, random_from="vocabulary", ratio=0.3)
    return Masking(config, mask_id=MASK, random_tokens=RandomTokens(VOCAB, SPECIAL))(random_batch([60] * 6), seed=seed)


def tiny(architecture: str = "bert") -> TransformerEncoder:
    return TransformerEncoder(preset(architecture, "tiny", vocab_size=VOCAB, layers=1).without_dropout())


def plain_loop(head: MaskedLMHead, hidden_ND: Tensor, table_VE: Tensor, examples: ExampleBatch) -> list[Tensor]:
    """The cross-entropy of every token that has a target, one by one, written from the formula."""
    assert head.offset is not None
    assert examples.offsets is not None
    losses = []
    for position, offset, target in zip(
        examples.positions.tolist(), examples.offsets.tolist(), examples.targets.tolist(), strict=True
    ):
        if offset >= len(head.offset.weight):
            continue
        x_D = hidden_ND[position] + (head.offset.weight[offset] if offset else 0.0)
        x_D = torch.nn.functional.gelu(head.dense.weight @ x_D + head.dense.bias)
        centred_D = x_D - x_D.mean()
        x_D = centred_D / (centred_D.square().mean() + 1e-12).sqrt() * head.norm.weight + head.norm.bias
        scores_V = table_VE @ x_D + head.bias
        losses.append(scores_V.exp().sum().log() - scores_V[target])
    return losses


@pytest.mark.parametrize("count", [20, 3])
def test_equals_a_plain_loop(count: int) -> None:
    examples = collapsed_examples()
    batch = TensorBatch.from_examples(examples)
    head = MaskedLMHead(preset("bert", "tiny", vocab_size=VOCAB), offsets=count).double()
    torch.nn.init.normal_(head.bias)
    hidden, table = (torch.randn(n, 128, dtype=torch.float64) for n in (len(examples.input_ids), VOCAB))
    objective = MaskedLM(head)
    loss = objective(Encoded(hidden_ND=hidden, pooled_BD=None, word_table_VE=table), batch)
    expected = plain_loop(head, hidden, table, examples)
    assert loss.count == objective.count(examples) == len(expected)
    assert (len(expected) < len(examples.targets)) == (count == 3)
    torch.testing.assert_close(loss.total, torch.stack(expected).sum(), rtol=1e-10, atol=0.0)
    loss.total.backward()
    assert head.offset is not None
    assert head.offset.weight.grad is not None
    assert not head.offset.weight.grad[0].any()  # so the first token is predicted as without the vectors
    assert head.offset.weight.grad[1:].any()


def test_a_new_head_tells_the_tokens_of_a_span_apart_and_an_existing_one_learns_to() -> None:
    examples = collapsed_examples()
    encoder = tiny()
    with pytest.raises(InputError, match="spans are collapsed, but the mlm head cannot tell"):
        build_criterion(encoder, {"mlm": 1.0}).require_targets(examples)
    trained = MaskedLMHead(encoder.config)
    criterion = build_criterion(encoder, {"mlm": 1.0}, heads={"mlm": trained}, collapsed=True)
    criterion.require_targets(examples)
    assert criterion.counts(examples)["mlm"] == (examples.offsets < 20).sum()  # type: ignore[operator]
    assert trained.offset is not None


@pytest.mark.parametrize("architecture", ["bert", "roberta", "modernbert", "transformer"])
def test_a_model_folder_keeps_the_vectors(architecture: str, tmp_path: Path) -> None:
    criterion: Any = build_criterion(tiny(architecture), {"mlm": 1.0}, collapsed=True)
    assert isinstance(criterion, Mixture)
    save_model(tmp_path, criterion.encoder, criterion.heads)
    model = load_model(tmp_path)
    batch = TensorBatch.from_examples(collapsed_examples())
    again = build_criterion(model.encoder.eval(), {"mlm": 1.0}, heads=model.heads, collapsed=True)
    assert torch.equal(again(batch).value, criterion.eval()(batch).value)
    assert not model.report.unexpected


def test_transformers_predicts_the_first_token_of_a_span_alike(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    criterion: Any = build_criterion(tiny(), {"mlm": 1.0}, collapsed=True)
    save_model(tmp_path, criterion.encoder, criterion.heads)
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    examples = collapsed_examples()
    length = int(examples.lengths[0])
    ids = torch.from_numpy(examples.input_ids[:length])[None]
    with torch.no_grad():
        encoded = encode(criterion.encoder.eval(), TensorBatch.from_examples(examples))
        ours = criterion.heads["mlm"](encoded.hidden_ND[:length], encoded.word_table_VE)
        torch.testing.assert_close(theirs(ids).logits[0], ours, rtol=1e-4, atol=1e-4)
