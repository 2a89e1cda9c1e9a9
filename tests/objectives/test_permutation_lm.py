"""The plm objective: equal to transformers' loss, logits where a target is, memory by column, saved and restored."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from spanlab.corruption import ExampleBatch, PermutationConfig, PermutationSampler, SpecialTokenLayout, batch_sequences
from spanlab.encoder import PermutationLMHead, TransformerEncoder, XLNetEncoder, preset, save_model
from spanlab.errors import ConfigError, InputError
from spanlab.objectives import PermutationLM, TensorBatch, build_criterion
from tests.objectives.batches import batch_of, random_sequences

VOCAB, LENGTH, COLUMNS = 60, 24, 4
LAYOUT = SpecialTokenLayout(cls_id=3, sep_id=4, special_ids=(3, 4), segments=True, cls_last=True)


def examples(step: int, columns: range = range(COLUMNS), *, both_ways: bool = False) -> ExampleBatch:
    """Step `step` of the streams."""
    rows = []
    for column in columns:
        generator = np.random.default_rng(100 * step + column)
        rows.append([*generator.integers(10, VOCAB, LENGTH - 2).tolist(), 4, 3])
    indices = [step * COLUMNS + column for column in columns]
    tokens = batch_sequences(rows, [[True] * LENGTH] * len(rows), LAYOUT, indices)
    law = PermutationConfig(predictions=5)
    return PermutationSampler(law, streams=COLUMNS, reuse=LENGTH // 2, both_ways=both_ways)(tokens, seed=1)


def build(seed: int = 0, **changes: object) -> PermutationLM:
    torch.manual_seed(seed)
    shape = {"width": 32, "layers": 2, "heads": 2, "inner_width": 64, "init_std": 0.2}
    dry = {"dropout": 0.0, "attention_dropout": 0.0}
    encoder = XLNetEncoder(preset("xlnet", vocab_size=VOCAB, **{**shape, **dry, **changes}))  # type: ignore[arg-type]
    return PermutationLM(encoder, PermutationLMHead(encoder.config))


def loss_of(criterion: PermutationLM, batch: ExampleBatch) -> torch.Tensor:
    return criterion(TensorBatch.from_examples(batch)).value


def test_loss_equals_transformers(tmp_path: Path) -> None:
    hf = pytest.importorskip("transformers")
    criterion = build()
    save_model(tmp_path, criterion.encoder, criterion.heads)
    theirs = hf.XLNetLMHeadModel.from_pretrained(tmp_path)
    batch = examples(0)
    assert batch.order is not None
    rank, sight = batch.order.rank.reshape(COLUMNS, -1), batch.order.visible_below.reshape(COLUMNS, -1)
    hidden = ~(rank[:, None, :] < sight[:, :, None])
    row, place = np.divmod(batch.positions, LENGTH)
    mapping = torch.zeros(COLUMNS, 5, LENGTH)
    mapping[torch.arange(COLUMNS).repeat_interleave(5), torch.arange(5).repeat(COLUMNS), torch.from_numpy(place)] = 1.0
    reference = theirs(
        torch.from_numpy(batch.input_ids.reshape(COLUMNS, -1)),
        perm_mask=torch.from_numpy(hidden).float(),
        target_mapping=mapping,
        labels=torch.from_numpy(batch.targets.reshape(COLUMNS, 5)),
    ).loss
    assert np.array_equal(row, np.repeat(np.arange(COLUMNS), 5))
    torch.testing.assert_close(loss_of(criterion, batch), reference, rtol=0, atol=1e-5)


def test_memory_is_carried_by_column_and_forgotten_where_the_streams_begin() -> None:
    criterion = build(memory=8, reuse=6).train()
    first = loss_of(criterion, examples(0))
    with_memory = loss_of(criterion, examples(1))
    assert criterion.recurrent_state()["2.memory"].shape == (2, 8, 32)
    without = loss_of(build(memory=8, reuse=6), examples(1))
    assert with_memory != without
    assert loss_of(criterion, examples(0)) == first


def test_columns_may_be_dealt_out_in_another_way() -> None:
    """The sum over two micro-batches, and after a restart with other groups, is that of one batch."""
    whole, parted = build(memory=8), build(memory=8)
    loss_of(whole, examples(0))
    for columns in (range(2), range(2, 4)):
        loss_of(parted, examples(0, columns))
    assert whole.recurrent_state().keys() == parted.recurrent_state().keys()
    for name, memory in whole.recurrent_state().items():
        torch.testing.assert_close(parted.recurrent_state()[name], memory, rtol=0, atol=1e-6)
    joined = loss_of(parted, examples(1))
    torch.testing.assert_close(joined, loss_of(whole, examples(1)), rtol=0, atol=1e-6)


def test_a_restored_run_goes_on_bit_for_bit() -> None:
    run, again = build(memory=8, reuse=12), build(memory=8, reuse=12)
    for step in range(3):
        loss_of(run, examples(step))
    again.load_recurrent_state({name: memory.clone() for name, memory in run.recurrent_state().items()})
    assert torch.equal(loss_of(run, examples(3)), loss_of(again, examples(3)))


def test_evaluation_leaves_the_memory_of_training_alone() -> None:
    criterion = build(memory=8).train()
    loss_of(criterion, examples(0))
    before = criterion.recurrent_state()
    criterion.eval()
    with torch.no_grad():
        loss_of(criterion, examples(0))
        loss_of(criterion, examples(1))
    after = criterion.recurrent_state()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_without_a_memory_nothing_is_carried() -> None:
    criterion = build()
    loss_of(criterion, examples(0))
    assert criterion.recurrent_state() == {}


def test_sequences_with_fewer_places_count_only_those() -> None:
    """A batch in which one sequence lacks two of its targets has the loss of the targets that are left."""
    criterion, batch = build(), examples(0)
    keep = np.ones(len(batch.positions), bool)
    keep[[6, 8]] = False
    fewer = ExampleBatch(**{**vars(batch), "positions": batch.positions[keep], "targets": batch.targets[keep]})
    total = 0.0
    for row in range(COLUMNS):
        one = examples(0, range(row, row + 1))
        mine = keep[batch.positions // LENGTH == row]
        part = ExampleBatch(**{**vars(one), "positions": one.positions[mine], "targets": one.targets[mine]})
        total += criterion(TensorBatch.from_examples(part)).parts["plm"].total.item()
    found = criterion(TensorBatch.from_examples(fewer)).parts["plm"]
    assert found.count == criterion.counts(fewer)["plm"] == 18
    assert found.total.item() == pytest.approx(total, abs=1e-4)


def test_it_learns_a_text_by_heart_in_both_directions() -> None:
    criterion = build(memory=12, reuse=12).train()
    optimizer = torch.optim.AdamW(criterion.parameters(), lr=3e-3)
    values = []
    for _ in range(60):
        for step in range(2):
            loss = loss_of(criterion, examples(step, both_ways=True))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            values.append(loss.item())
    assert np.mean(values[-4:]) < 0.3 * np.mean(values[:4])
    metrics = criterion.metrics(criterion(TensorBatch.from_examples(examples(0))).parts)
    assert metrics["accuracy.plm"] > 0.5


def test_refusals() -> None:
    criterion = build()
    with pytest.raises(InputError, match="no order of prediction"):
        criterion.require_targets(batch_of(random_sequences(2)))
    with pytest.raises(ConfigError, match="needs an XLNet encoder"):
        build_criterion(TransformerEncoder(preset("bert", "tiny", vocab_size=VOCAB)), {"plm": 1.0})
    with pytest.raises(ConfigError, match="'mlm' cannot be combined with plm"):
        build_criterion(criterion.encoder, {"plm": 1.0, "mlm": 1.0})
    built = build_criterion(criterion.encoder, {"plm": 2.0}, heads=criterion.heads)
    assert isinstance(built, PermutationLM)
    assert built.head is criterion.head
    batch = examples(1)
    assert batch.order is not None
    mixed = replace(batch, indices=batch.indices + np.array([0, 0, COLUMNS, 0]))
    with pytest.raises(InputError, match="at the same step"):
        loss_of(build(memory=4), mixed)
    turned = replace(batch, order=replace(batch.order, backward=np.array([True, False, False, True])))
    with pytest.raises(InputError, match="must come after the others"):
        loss_of(criterion, turned)
