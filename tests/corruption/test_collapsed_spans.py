"""A span as a single mask: what stays, what goes, and that no token of the text is lost as a target."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from spanlab.corruption import ExampleBatch, Masking, MaskingConfig, RandomTokens, SpanMasking
from spanlab.text.train import TokenizerConfig, train_tokenizer
from tests.corruption.batches import MASK, SPECIAL, VOCAB, random_batch


def masking(**changes: object) -> Masking:
    config = MaskingConfig(**{"random_from": "vocabulary", **changes})  # type: ignore[arg-type]
    return Masking(config, mask_id=MASK, random_tokens=RandomTokens(VOCAB, SPECIAL))


def restored(examples: ExampleBatch) -> list[int]:
    """The text before corruption, from the input and the targets alone."""
    assert examples.offsets is not None
    tokens: dict[int, dict[int, int]] = {place: {0: token} for place, token in enumerate(examples.input_ids.tolist())}
    for place, offset, target in zip(
        examples.positions.tolist(), examples.offsets.tolist(), examples.targets.tolist(), strict=True
    ):
        tokens[place][offset] = target
    return [token for place in sorted(tokens) for _, token in sorted(tokens[place].items())]


@given(
    lengths=st.lists(st.integers(2, 80), min_size=1, max_size=6),
    seed=st.integers(0, 2**40),
    law=st.sampled_from(["subword", "word", "span", "ngram"]),
    per=st.sampled_from(["token", "word", "span"]),
)
@settings(max_examples=80, deadline=None)
def test_the_text_can_be_restored_from_input_and_targets(lengths: list[int], seed: int, law: str, per: str) -> None:
    batch = random_batch(lengths, seed=seed % 97)
    short = masking(collapse=True, law=law, replace_per=per)(batch, seed=seed)
    assert restored(short) == batch.ids.tolist()
    assert short.lengths.sum() == len(short.input_ids) == len(short.original_ids)
    whole = masking(law=law)(batch, seed=seed)
    assert short.targets.tolist() == whole.targets.tolist()


def test_only_spans_of_masks_collapse_and_all_else_is_as_without() -> None:
    batch = random_batch([60] * 40, seed=12)
    whole, short = masking()(batch, seed=0), masking(collapse=True)(batch, seed=0)
    assert whole.boundaries is not None
    assert short.boundaries is not None
    assert short.offsets is not None
    seen = whole.input_ids[whole.positions]
    firsts = np.unique(whole.boundaries.first[seen == MASK])
    assert len(short.input_ids) == len(whole.input_ids) - (seen == MASK).sum() + len(firsts)
    assert short.input_ids[short.positions].tolist() == seen.tolist()  # random and kept tokens stay in their places
    assert short.offsets.tolist() == np.where(seen == MASK, whole.positions - whole.boundaries.first, 0).tolist()
    assert short.boundaries.targets.tolist() == whole.boundaries.targets.tolist()
    assert short.boundaries.offsets.tolist() == whole.boundaries.offsets.tolist()
    for side in ("left", "right"):
        ours, theirs = getattr(short.boundaries, side), getattr(whole.boundaries, side)
        assert short.input_ids[ours].tolist() == whole.input_ids[theirs].tolist()
    assert (short.boundaries.left == short.boundaries.first - 1).all()
    assert (short.boundaries.right == short.boundaries.last + 1).all()
    single = short.input_ids[short.boundaries.first] == MASK
    assert (short.boundaries.first[single] == short.boundaries.last[single]).all()
    assert not (short.input_ids[1:] == MASK)[short.input_ids[:-1] == MASK].any()


def test_spans_are_masked_replaced_or_kept_in_their_shares() -> None:
    batch = random_batch([400] * 600, seed=10)
    short = masking(collapse=True, replace_per="token")(batch, seed=3)
    assert short.boundaries is not None
    first, size = np.unique(short.boundaries.first, return_counts=True)
    of_span = np.searchsorted(short.positions, first)
    seen, targets = short.input_ids[short.positions], short.targets
    masked = seen[of_span] == MASK
    same = np.add.reduceat(seen == targets, of_span) == size
    counts = np.array([masked.sum(), (~masked & ~same).sum(), same.sum()])
    assert counts.sum() == len(first) > 6000
    assert stats.chisquare(counts, np.array([0.8, 0.1, 0.1]) * counts.sum()).pvalue > 1e-4
    assert (np.add.reduceat(seen == MASK, of_span) == np.where(masked, size, 0)).all()


def test_labels_of_the_collator_are_the_first_tokens() -> None:
    text = "A span has two ends, and what lies between them can be guessed from outside."
    tokenizer = train_tokenizer([text] * 3, TokenizerConfig(kind="wordpiece", vocab_size=80, lowercase=True))
    ids = [[tokenizer.cls_id, *tokenizer.encode(text).ids.tolist(), tokenizer.sep_id]] * 4
    collator = SpanMasking(tokenizer, seed=1, ratio=0.3, collapse=True, all_mask=True)
    batch = collator(ids)
    flat_labels, flat_ids = batch["labels"].flatten(), batch["input_ids"].flatten()
    first = batch["span_offset"] == 0
    assert (batch["span_offset"] > 0).any()
    assert torch.equal(flat_labels[batch["span_position"][first]], batch["span_target"][first])
    assert int((flat_labels != -100).sum()) == int(first.sum()) == int((flat_ids == tokenizer.mask_id).sum())


@pytest.mark.parametrize("collapse", [False, True])
def test_offsets_are_there_only_where_spans_collapse(collapse: bool) -> None:
    examples = masking(collapse=collapse)(random_batch([50]), seed=0)
    assert (examples.offsets is not None) == collapse
