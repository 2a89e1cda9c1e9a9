"""Next-token examples: every token is predicted once from what is before it, in blocks and in streams of both ways."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.corpus import PrepareConfig, PreparedCorpus, plan_preparation, run_preparation
from spanlab.corruption.autoregressive import mirror_steps, reverse, shifted
from spanlab.pretraining.examples import Examples
from spanlab.pretraining.recipe import load_recipe
from spanlab.text.train import TokenizerConfig, train_tokenizer

DOCUMENTS = [
    "The miller sold flour. The baker bought flour and made bread.",
    "Bread is made of flour. The miller was glad. The baker was glad too.",
    "A baker and a miller sold bread and flour. A miller sold.",
]


def corpus_of(folder: Path, kind: str) -> PreparedCorpus:
    settings = {
        "word": TokenizerConfig(kind="word", vocab_size=40, min_frequency=1),
        "bpe": TokenizerConfig(kind="bpe", vocab_size=280, system="gpt"),
    }
    text = folder / "text.txt"
    text.write_text("\n\n".join(DOCUMENTS))
    tokenizer = train_tokenizer(DOCUMENTS, settings[kind])
    plan = plan_preparation([str(text)], PrepareConfig(documents="blank-line"))
    run_preparation(plan, tokenizer=tokenizer, out=folder / "corpus", workers=1)
    return PreparedCorpus.open(folder / "corpus")


sequences = st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=7), min_size=1, max_size=6)


@given(sequences)
def test_targets_are_the_next_tokens(rows: list[list[int]]) -> None:
    ids, lengths = np.concatenate([np.array(row) for row in rows]), np.array([len(row) for row in rows])
    batch = shifted(np.arange(len(rows)), ids, lengths)
    expected = [(place, token) for row in rows for place, token in pairwise(row)]
    seen = batch.input_ids[batch.positions]
    assert list(zip(seen.tolist(), batch.targets.tolist(), strict=True)) == expected
    assert batch.lengths.tolist() == [max(1, len(row) - 1) for row in rows]
    assert batch.input_ids.tolist() == [token for row in rows for token in (row[:-1] or row)]


@given(sequences)
def test_reversing_turns_each_sequence_round(rows: list[list[int]]) -> None:
    ids, lengths = np.concatenate([np.array(row) for row in rows]), np.array([len(row) for row in rows])
    assert reverse(ids, lengths).tolist() == [token for row in rows for token in reversed(row)]


@given(st.integers(1, 9), st.integers(1, 60))
def test_the_backward_reader_visits_every_block_of_each_column_from_the_end(columns: int, count: int) -> None:
    count = max(count, columns)
    mirrored = mirror_steps(np.arange(count), columns, count)
    assert sorted(mirrored.tolist()) == list(range(count))
    for column in range(columns):
        own = np.arange(column, count, columns)
        assert mirrored[own].tolist() == own[::-1].tolist()


@pytest.mark.parametrize("columns", [1, 3])
def test_a_stream_predicts_every_token_but_the_first_once(columns: int, tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, "bpe")
    end = corpus.tokenizer.sep_id
    assert end is not None
    whole = [int(token) for text in DOCUMENTS for token in [*corpus.tokenizer.encode(text).ids, end]]
    examples = Examples(corpus, load_recipe("gpt", ["data.length=6", f"data.streams={columns}"]))
    batch = examples.batch(np.arange(len(examples)))
    assert batch.streams == columns
    assert batch.lengths.max() == 6
    streams: list[list[int]] = [[] for _ in range(columns)]
    sizes = np.bincount(np.repeat(np.arange(len(batch.lengths)), batch.lengths)[batch.positions])
    targets = np.split(batch.targets, np.cumsum(sizes)[:-1])
    first = np.cumsum(batch.lengths) - batch.lengths
    for number, part in enumerate(targets):
        if number < columns:
            streams[number].append(int(batch.input_ids[first[number]]))
        streams[number % columns] += part.tolist()
    assert [token for stream in streams for token in stream] == whole


def test_documents_end_with_their_separator(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, "bpe")
    examples = Examples(corpus, load_recipe("gpt", ["data.blocks=documents", "data.length=500"]))
    batch = examples.batch([1])
    assert batch.streams == 0
    ids = [int(token) for token in corpus.tokenizer.encode(DOCUMENTS[1]).ids]
    assert batch.input_ids.tolist() == ids
    assert batch.targets.tolist() == [*ids[1:], corpus.tokenizer.sep_id]


def test_both_ways_read_marked_sentences_from_both_ends(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, "word")
    tokenizer = corpus.tokenizer
    sentences = [sentence for text in DOCUMENTS for sentence in text.replace(". ", ".|").split("|")]
    marked: list[str] = []
    for number, sentence in enumerate(sentences):
        marked += (["</S>", "<S>"] if number else []) + sentence.replace(".", " .").split()
    columns = 2
    examples = Examples(corpus, load_recipe("elmo", ["data.length=5", f"data.streams={columns}"]))
    read: dict[str, list[list[str]]] = {"forward": [[], []], "backward": [[], []]}
    for start in range(0, len(examples), columns):
        batch = examples.batch(np.arange(start, min(start + columns, len(examples))))
        count = len(batch.lengths) // 2
        assert batch.indices[:count].tolist() == batch.indices[count:].tolist()
        ends = np.cumsum(batch.lengths)
        for row, end in enumerate(ends):
            places = (batch.positions < end) & (batch.positions >= end - batch.lengths[row])
            words = [tokenizer.vocabulary[token] for token in batch.targets[places]]
            way = read["forward" if row < count else "backward"][int(batch.indices[row]) % columns]
            if start == 0:
                way.append(tokenizer.vocabulary[int(batch.input_ids[end - batch.lengths[row]])])
            way += words
    for one_way, other in zip(read["forward"], read["backward"], strict=True):
        assert one_way == other[::-1]
    # The cut between the two columns may fall between sentences, whose marks then belong to neither.
    joined = [*read["forward"][0], *read["forward"][1]]
    assert joined in (marked, _without_marks_at(marked, len(read["forward"][0])))


def _without_marks_at(words: list[str], place: int) -> list[str]:
    return words[:place] + words[place + 2 :]
