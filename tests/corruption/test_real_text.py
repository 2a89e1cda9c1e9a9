"""SpanBERT's law on real text with the published tokenizers of each type; skipped where the data is missing."""

import gzip
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from spanlab.corpus.randomness import sample_keys
from spanlab.corruption import Masking, MaskingConfig, RandomTokens, SpecialTokenLayout, TokenBatch, batch_sequences
from spanlab.corruption.span_law import LengthLaw, draw_spans
from spanlab.corruption.units import words_of
from spanlab.text import Tokenizer

TOKENIZERS = {
    "wordpiece": "bert-base-cased",
    "chinese": "bert-base-chinese",
    "byte-level bpe": "gpt2-roberta-bpe",
    "sentencepiece": "albert-v2_spiece",
}
LENGTH = 512


class Blocks(NamedTuple):
    batch: TokenBatch
    special: tuple[int, ...]
    mask_id: int
    vocab_size: int


def real_text(folder: Path, name: str) -> str:
    if name == "chinese":
        data = json.loads((folder / "qa" / "cmrc2018_trial_zh.json").read_text(encoding="utf-8"))
        entries = data if isinstance(data, list) else data["data"]
        texts = [entry.get("context_text") or entry["paragraphs"][0]["context"] for entry in entries]
        return "\n".join(texts)[:120_000]
    with gzip.open(folder / "wikitext2" / "valid.raw.gz", "rt", encoding="utf-8") as file:
        return file.read(400_000)


@pytest.fixture(scope="module", params=TOKENIZERS)
def blocks(request: pytest.FixtureRequest, real_data: Path) -> Blocks:
    folder = real_data / "tokenizers" / TOKENIZERS[request.param]
    if not folder.is_dir():
        pytest.skip(f"no tokenizer in {folder.name}")
    tokenizer = Tokenizer.load(folder)
    tokens = tokenizer.encode(real_text(real_data, request.param))
    # GPT-2's vocabulary has no [CLS], [SEP] and [MASK]: ids past its end stand in for them.
    cls_id, sep_id, mask_id = (
        own if own is not None else tokenizer.vocab_size + number
        for number, own in enumerate((tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id))
    )
    special = tuple({*tokenizer.special_ids, cls_id, sep_id, mask_id})
    layout = SpecialTokenLayout(cls_id=cls_id, sep_id=sep_id, special_ids=special)
    room = LENGTH - 2
    rows = range(0, len(tokens.ids) - room, room)
    sequences = [[cls_id, *tokens.ids[start : start + room].tolist(), sep_id] for start in rows]
    flags = [[True, *tokens.word_starts[start : start + room].tolist(), True] for start in rows]
    return Blocks(
        batch_sequences(sequences, flags, layout), special, mask_id, max(tokenizer.vocab_size, max(special) + 1)
    )


def test_the_law_holds(blocks: Blocks) -> None:
    batch = blocks.batch
    words = words_of(batch)
    law = LengthLaw(0.2, 10)
    draws = -(-100_000 // len(batch.lengths))
    keys = sample_keys(seed=0, purpose="masking", epoch=0, index=batch.indices)
    starts, lengths = draw_spans(words, keys, draws, law, "word")
    counts = np.bincount(lengths.ravel(), minlength=11)[1:]
    assert counts.sum() >= 100_000
    assert stats.chisquare(counts, law.probabilities * counts.sum()).pvalue > 1e-4
    assert lengths.mean() == pytest.approx(3.797, abs=0.03)
    places = np.floor(starts / words.counts[:, None] * 10).astype(int)
    ideal = np.array([_words_in_tenth(words.counts, tenth) for tenth in range(10)])
    assert stats.chisquare(np.bincount(places.ravel(), minlength=10), ideal * draws).pvalue > 1e-4

    for cut, masking in ((cut, _masking(blocks, cut_last_word=cut)) for cut in (False, True)):
        examples = masking(batch, seed=0)
        masked = np.bincount(batch.block_of[examples.positions], minlength=len(batch.lengths))
        budget = np.ceil(0.15 * batch.text_lengths - 1e-9)
        longest = np.maximum.reduceat(words.lengths, words.firsts)
        assert batch.maskable[examples.positions].all()
        assert (masked <= budget).all()
        assert (budget - masked < (1 if cut else longest)).all()
        if not cut:
            flags = np.zeros(len(batch.ids), bool)
            flags[examples.positions] = True
            inside = np.flatnonzero(batch.maskable & ~batch.word_starts)
            assert (flags[inside] == flags[inside - 1]).all()


def _words_in_tenth(counts: np.ndarray, tenth: int) -> float:
    """How often a uniform word falls into a tenth of its block, summed over blocks."""
    total = 0.0
    for count in counts.tolist():
        words = np.floor(np.arange(count) / count * 10)
        total += float((words == tenth).mean())
    return total


def _masking(blocks: Blocks, **changes: object) -> Masking:
    config = MaskingConfig(random_from="vocabulary", **changes)  # type: ignore[arg-type]
    tokens = RandomTokens(blocks.vocab_size, blocks.special)
    return Masking(config, mask_id=blocks.mask_id, random_tokens=tokens)


def test_decisions_fall_once_a_span(blocks: Blocks) -> None:
    batch, mask_id = blocks.batch, blocks.mask_id
    kinds, spans = np.zeros(3), 0
    for epoch in range(6):
        examples = _masking(blocks)(batch, seed=0, epoch=epoch)
        seen = examples.input_ids[examples.positions]
        first = np.searchsorted(examples.positions, np.unique(examples.boundaries.first))
        kinds[0] += (seen[first] == mask_id).sum()
        kinds[2] += (seen[first] == examples.targets[first]).sum()
        spans += len(first)
        assert not np.isin(seen[seen != mask_id], blocks.special).any()
    assert kinds[0] / spans == pytest.approx(0.8, abs=5 * (0.16 / spans) ** 0.5)
    assert kinds[2] / spans == pytest.approx(0.1, abs=5 * (0.09 / spans) ** 0.5)
