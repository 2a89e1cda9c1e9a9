"""Task adapters: no change before training, and never any change for another task."""

import copy

import pytest
import torch

from spanlab.finetuning.config import resolve_config
from spanlab.tasks.adapters import TaskAdapters
from spanlab.tasks.classification import Classification
from spanlab.tasks.config import TaskAdapterConfig
from spanlab.tasks.network import MultiTaskNetwork, encode_samples
from spanlab.tasks.sample import SampleBatch
from spanlab.tasks.tensor_batch import TensorBatch, pack_samples
from tests.tasks.making import read, tiny_encoder, windower

TEXTS = ("the river rose again", "she won", "and she won the long race again")
ROWS = [{"text": text, "label": label} for text, label in zip(TEXTS, ("water", "sport", "sport"), strict=True)]
ALL_PARTS = TaskAdapterConfig(lora=2, pooler=True, embedding=True)


def classification() -> tuple[Classification, list[object]]:
    examples = read(Classification, ROWS)
    return Classification.fit(resolve_config("classification", {}), examples), examples


def batch_for(name: str) -> TensorBatch:
    task, examples = classification()
    return pack_samples(SampleBatch(task=name, samples=tuple(task.encode(examples, windower(), labelled=True))))


@pytest.mark.parametrize(
    "config",
    [TaskAdapterConfig(lora=3), TaskAdapterConfig(pooler=True), TaskAdapterConfig(embedding=True), ALL_PARTS],
)
def test_new_parts_change_nothing(config: TaskAdapterConfig) -> None:
    encoder, batch = tiny_encoder().eval(), batch_for("a")
    plain, adapters = (
        encode_samples(encoder, batch),
        encode_samples(encoder, batch, adapters=TaskAdapters(encoder, config)),
    )
    assert torch.equal(plain.hidden_ND, adapters.hidden_ND)
    assert plain.pooled_BD is not None
    assert adapters.pooled_BD is not None
    assert torch.equal(plain.pooled_BD, adapters.pooled_BD)


def test_parts_learn_and_the_encoder_and_other_tasks_stay_bit_for_bit() -> None:
    task, _ = classification()
    encoder = tiny_encoder()
    heads = {name: task.head(encoder) for name in ("old", "new")}
    before = copy.deepcopy(encoder.state_dict())
    encoder.requires_grad_(False)
    adapters = TaskAdapters(encoder, ALL_PARTS)
    network = MultiTaskNetwork(encoder, heads, adapters={"new": adapters}).eval()
    said = network(batch_for("old"), return_logits=True)
    said_by_new = network(batch_for("new"), return_logits=True)
    optimiser = torch.optim.SGD([weight for weight in network.parameters() if weight.requires_grad], lr=0.5)
    for _ in range(3):
        optimiser.zero_grad()
        network(batch_for("new")).value.backward()
        optimiser.step()
    assert all(torch.equal(before[name], weight) for name, weight in encoder.state_dict().items())
    assert torch.equal(network(batch_for("old"), return_logits=True), said)
    assert not torch.allclose(network(batch_for("new"), return_logits=True), said_by_new)
    moved = {name for name, weight in adapters.named_parameters() if weight.grad is not None and weight.grad.any()}
    assert {name.partition(".")[0] for name in moved} == {"adapters", "pooler", "embedding_E"}


def test_long_batches_run_in_turn_with_the_same_parts() -> None:
    encoder, batch = tiny_encoder().eval(), batch_for("a")
    adapters = TaskAdapters(encoder, ALL_PARTS)
    torch.nn.init.normal_(adapters.embedding_E)  # type: ignore[arg-type]
    for adapter in adapters.adapters:
        torch.nn.init.normal_(adapter.up)  # type: ignore[arg-type]
    whole, parts = (
        encode_samples(encoder, batch, adapters=adapters),
        encode_samples(encoder, batch, adapters=adapters, max_tokens=1),
    )
    torch.testing.assert_close(whole.hidden_ND, parts.hidden_ND)
    torch.testing.assert_close(whole.pooled_BD, parts.pooled_BD)


def test_learnt_weights_add_up_over_micro_batches_and_fall_for_uncertain_tasks() -> None:
    task, examples = classification()
    encoder = tiny_encoder()
    network = MultiTaskNetwork(encoder, {"a": task.head(encoder)}, {"a": 3.0}, learn_weights=True).eval()
    with torch.no_grad():
        network.log_variances["a"].fill_(0.7)
    samples = task.encode(examples, windower(), labelled=True)
    whole = SampleBatch(task="a", samples=tuple(samples))
    counts = network.counts(whole)
    loss = network(pack_samples(whole), counts)
    parts = [network(pack_samples(SampleBatch(task="a", samples=(sample,))), counts).value for sample in samples]
    assert loss.value.item() == pytest.approx(sum(part.item() for part in parts), rel=1e-5)
    mean = loss.parts["a"].total.item() / 3
    assert loss.value.item() == pytest.approx(3.0 * (mean * 0.4965853 + 0.35), rel=1e-5)
    assert network.metrics(loss.parts)["weight.a"] == pytest.approx(3.0 * 0.4965853, rel=1e-5)
    loss.value.backward()
    slope = 3.0 * (0.5 - 0.4965853 * mean)
    assert network.log_variances["a"].grad.item() == pytest.approx(slope, rel=1e-4)  # type: ignore[union-attr]
