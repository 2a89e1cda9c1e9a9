"""The bidirectional objective: word by word by hand, no glimpse of a target, and states that go on through a stream."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from spanlab.corruption.autoregressive import reverse, shifted
from spanlab.corruption.examples import ExampleBatch
from spanlab.encoder import BidirectionalLMHead, ElmoConfig, ElmoEncoder, TransformerEncoder, preset
from spanlab.errors import ConfigError, InputError
from spanlab.objectives import BidirectionalLM, TensorBatch, build_criterion

VOCAB = 23
WORDS = ["<S>", "</S>", "<UNK>", *(f"w{number * 37}" for number in range(VOCAB - 3))]
SHAPE = ElmoConfig(
    vocab_size=VOCAB, character_width=4, filters=((1, 3), (3, 5)), cells=9, projection=6, dropout=0.0, clip=0.4
)
ROWS = [[0, 3, 4, 5, 6, 1], [0, 9, 1], [8], [0, 10, 2, 7, 1]]


def criterion_of(shape: ElmoConfig = SHAPE) -> BidirectionalLM:
    torch.manual_seed(6)
    built = build_criterion(ElmoEncoder(shape, WORDS), {"bilm": 1.0})
    assert isinstance(built, BidirectionalLM)
    return built.double()


def batch_of(
    forward: list[list[int]],
    backward: list[list[int]] | None = None,
    *,
    indices: list[int] | None = None,
    columns: int = 0,
) -> TensorBatch:
    """Sequences as the forward direction reads them, and those of the backward one, in the order of the text."""
    backward = forward if backward is None else backward
    numbers = np.arange(len(forward)) if indices is None else np.array(indices)
    lengths = np.array([len(row) for row in backward])
    ids = np.concatenate([*map(np.array, forward), reverse(np.concatenate([*map(np.array, backward)]), lengths)])
    both = np.array([len(row) for row in [*forward, *backward]])
    return TensorBatch.from_examples(shifted(np.tile(numbers, 2), ids, both, streams=columns))


def by_hand(criterion: BidirectionalLM, rows: list[list[int]]) -> tuple[Tensor, int]:
    """Every word from the words on one side of it, read alone."""
    encoder, head, width = criterion.encoder, criterion.head, SHAPE.projection
    total, count = torch.zeros((), dtype=torch.float64), 0
    for row in rows:
        for place in range(1, len(row)):
            prefix = encoder(torch.tensor([row[:place]]), output_hidden_states=True).hidden_states[-1][0, -1, :width]
            suffix = encoder(torch.tensor([row[place:]]), output_hidden_states=True).hidden_states[-1][0, 0, width:]
            for vector, target in ((prefix, row[place]), (suffix, row[place - 1])):
                scores = torch.stack([(vector * line).sum() for line in head.decoder]) + head.bias
                total = total + torch.log(torch.exp(scores).sum()) - scores[target]
                count += 1
    return total, count


def test_loss_and_gradients_are_those_of_a_plain_loop() -> None:
    criterion = criterion_of()
    batch = batch_of(ROWS)
    loss = criterion(batch)
    expected, count = by_hand(criterion, ROWS)
    assert criterion.counts(batch.examples) == {"bilm": count} == {"bilm": loss.parts["bilm"].count}
    torch.testing.assert_close(loss.parts["bilm"].total, expected)
    torch.testing.assert_close(loss.value, expected / count)
    trained = [parameter for parameter in criterion.parameters() if parameter.requires_grad]
    assert len(trained) == len(list(criterion.parameters())) - 2
    ours = torch.autograd.grad(loss.value, trained)
    theirs = torch.autograd.grad(expected / count, trained)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-7)
    metrics = criterion.metrics(loss.parts)
    assert metrics["perplexity.bilm"] == pytest.approx(np.exp(expected.item() / count))


def test_the_loss_is_that_of_all_logits() -> None:
    criterion = criterion_of()
    batch = batch_of(ROWS)
    hidden = criterion._encode(batch)[batch.positions]
    expected = torch.nn.functional.cross_entropy(criterion.head(hidden), batch.targets, reduction="sum")
    torch.testing.assert_close(criterion(batch).parts["bilm"].total, expected)


def test_micro_batches_add_up() -> None:
    criterion = criterion_of()
    whole = criterion(batch_of(ROWS))
    whole.value.backward()
    expected = [parameter.grad.clone() for parameter in criterion.parameters() if parameter.grad is not None]
    criterion.zero_grad()
    counts = criterion.counts(batch_of(ROWS).examples)
    for part in (ROWS[:1], ROWS[1:]):
        criterion(batch_of(part), counts).value.backward()
    found = [parameter.grad for parameter in criterion.parameters() if parameter.grad is not None]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_no_prediction_sees_its_target_or_what_lies_behind_it() -> None:
    criterion = criterion_of().double().eval()
    row = ROWS[0]
    before = criterion._encode(batch_of([row]))
    for changed in range(len(row)):
        other = [*row]
        other[changed] = 15
        same = ((criterion._encode(batch_of([other])) - before).abs() < 1e-12).all(dim=1).tolist()
        ahead, behind = same[: len(row) - 1], same[len(row) - 1 :]
        # Forwards, place p is read last and p + 1 predicted; backwards, counted from the end, likewise.
        assert ahead == [place < changed for place in range(len(row) - 1)]
        assert behind == [len(row) - 1 - place > changed for place in range(len(row) - 1)]


def stream(columns: int, steps: int, length: int = 4) -> tuple[list[list[int]], list[TensorBatch]]:
    """The text of each column, and its batches: forwards from the front, backwards from the end."""
    rng = np.random.default_rng(1)
    texts = [rng.integers(3, VOCAB, steps * length + 1).tolist() for _ in range(columns)]
    batches = []
    for step in range(steps):
        first, last = step * length, (steps - 1 - step) * length
        batches.append(
            batch_of(
                [text[first : first + length + 1] for text in texts],
                [text[last : last + length + 1] for text in texts],
                indices=[step * columns + column for column in range(columns)],
                columns=columns,
            )
        )
    return texts, batches


@pytest.mark.parametrize("training", [True, False])
def test_three_segments_with_their_states_equal_one_long_one(training: bool) -> None:
    criterion = criterion_of().train(training)
    texts, batches = stream(3, 3)
    parts = [criterion(batch).parts["bilm"] for batch in batches]
    total = sum(part.total for part in parts)
    expected = criterion_of()(batch_of(texts)).parts["bilm"]
    assert sum(part.count for part in parts) == expected.count
    torch.testing.assert_close(total, expected.total)


def test_a_new_pass_and_a_gap_begin_with_nothing() -> None:
    criterion = criterion_of()
    _, batches = stream(3, 3)
    first = [criterion(batch).value.item() for batch in batches]
    assert [criterion(batch).value.item() for batch in batches] == first
    alone = criterion_of()(batches[2]).value.item()
    assert alone != first[2]
    criterion(batches[0])
    assert criterion(batches[2]).value.item() == alone


def test_evaluation_between_steps_changes_nothing() -> None:
    _, batches = stream(3, 3)
    plain, interrupted = criterion_of(), criterion_of()
    for batch in batches:
        expected = plain(batch).value.item()
        assert interrupted.train()(batch).value.item() == expected
        interrupted.eval()
        evaluated = [interrupted(other).value.item() for other in batches]
        assert evaluated == [interrupted(other).value.item() for other in batches]


def test_a_run_goes_on_from_its_carried_state() -> None:
    _, batches = stream(3, 4)
    plain = criterion_of()
    expected = [plain(batch).value.item() for batch in batches]
    first, second = criterion_of(), criterion_of()
    assert first.recurrent_state() == {}
    for batch in batches[:2]:
        first(batch)
    saved = first.recurrent_state()
    assert [saved[f"{stream}.step"].item() for stream in range(3)] == [2, 2, 2]
    assert all(isinstance(tensor, Tensor) and not tensor.requires_grad for tensor in saved.values())
    first(batches[2])
    second.load_recurrent_state(saved)
    assert [second(batch).value.item() for batch in batches[2:]] == expected[2:]


def test_streams_may_come_in_any_order_and_in_parts() -> None:
    _, batches = stream(4, 3)
    whole, parted = criterion_of(), criterion_of()
    for batch in batches:
        expected = whole(batch).parts["bilm"].total
        found = torch.zeros((), dtype=torch.float64)
        for rows in ([2, 0], [3, 1]):
            found = found + parted(_rows(batch.examples, rows)).parts["bilm"].total
        torch.testing.assert_close(found, expected)


def _rows(examples: ExampleBatch, rows: list[int]) -> TensorBatch:
    """Some of the samples of a batch; every sequence here has all its tokens but the last as input."""
    half = len(examples.lengths) // 2
    ends = np.cumsum(examples.lengths)
    taken = [*rows, *(half + row for row in rows)]
    parts = []
    for row in taken:
        inside = slice(ends[row] - examples.lengths[row], ends[row])
        last = examples.targets[np.searchsorted(examples.positions, ends[row] - 1)]
        parts.append(np.append(examples.input_ids[inside], last))
    lengths = np.array([len(part) for part in parts])
    return TensorBatch.from_examples(
        shifted(examples.indices[taken], np.concatenate(parts), lengths, streams=examples.streams)
    )


def test_no_gradient_goes_back_into_an_earlier_step() -> None:
    criterion = criterion_of()
    _, batches = stream(2, 2)
    criterion(batches[0]).value.backward()
    criterion.zero_grad()
    criterion(batches[1]).value.backward()  # the graph of the first step is gone: this would fail if it were needed
    assert all(p.grad is not None for p in criterion.parameters() if p.requires_grad)


def test_what_cannot_be_trained_so() -> None:
    criterion = criterion_of()
    single = shifted(np.arange(3), np.arange(9), np.array([3, 3, 3]))
    with pytest.raises(InputError, match="needs each sample twice"):
        criterion.require_targets(single)
    elmo = ElmoEncoder(SHAPE, WORDS)
    with pytest.raises(ConfigError, match="the bilm objective needs an ELMo encoder, and this is bert"):
        build_criterion(TransformerEncoder(preset("bert", "tiny", vocab_size=VOCAB)), {"bilm": 1.0})
    with pytest.raises(ConfigError, match=r"'mlm' cannot be combined with bilm; set objectives\.mlm=0"):
        build_criterion(elmo, {"bilm": 1.0, "mlm": 1.0})
    head = BidirectionalLMHead(elmo.config)
    kept: Any = build_criterion(elmo, {"bilm": 2.0}, heads={"bilm": head})
    assert kept.heads == {"bilm": head}
    assert kept.weights == {"bilm": 2.0}
