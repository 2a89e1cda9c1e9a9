"""Pairs against the published scripts' procedure, written out as the plain loop that it is."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.corpus import PairBlocks, PairLaw, PreparedCorpus
from spanlab.corpus import pairs as pairs_module
from spanlab.corpus.randomness import below, draw, sample_keys, uniform
from spanlab.errors import InputError
from tests.corpus.making import Documents, joined, make_corpus

DOCUMENTS = st.lists(
    st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=6), min_size=1, max_size=9), min_size=2, max_size=9
)
LAWS = [
    PairLaw(task="next_sentence"),
    PairLaw(task="next_sentence", short_share=0.6),
    PairLaw(task="sentence_order"),
    PairLaw(task="sentence_order", random_for_single=True, short_share=0.5),
]


class Choices:
    """The random choices of a document or chunk, one draw at a time."""

    def __init__(self, key: np.ndarray) -> None:
        self.key = key

    def uniform(self, index: int) -> float:
        return float(uniform(draw(self.key, index))[0])

    def below(self, index: int, bound: int) -> int:
        return int(below(draw(self.key, index), bound)[0])

    def coin(self, index: int, bit: int) -> bool:
        return bool(int(draw(self.key, index)[0]) >> bit & 1)


def documents_of(corpus: PreparedCorpus) -> list[list[list[int]]]:
    whole = corpus.read([0], [corpus.counts.tokens])
    starts = set(corpus.start_of("documents", np.arange(corpus.counts.documents)).tolist())
    documents: list[list[list[int]]] = []
    for position, (token, opens) in enumerate(zip(whole.ids.tolist(), whole.sentence_starts.tolist(), strict=True)):
        if position in starts:
            documents.append([])
        if opens:
            documents[-1].append([])
        documents[-1][-1].append(token)
    return documents


def plain_pairs(
    documents: list[list[list[int]]], max_tokens: int, law: PairLaw, seed: int, pass_index: int
) -> list[tuple[list[int], list[int], int]]:
    pairs = []
    for name, document in enumerate(documents):
        of_document = Choices(sample_keys(seed=seed, purpose="pairs", epoch=pass_index, index=name))
        target = max_tokens
        if of_document.uniform(0) < law.short_share:
            target = 2 + of_document.below(1, max_tokens - 1)
        chunk: list[list[int]] = []
        position, made = 0, 0
        while position < len(document):
            chunk.append(document[position])
            if position == len(document) - 1 or sum(map(len, chunk)) >= target:
                of_chunk = Choices(draw(of_document.key, 2 + made))
                first, second, label, back = plain_pair(documents, name, chunk, target, law, of_chunk)
                position -= back
                pairs.append((*truncate(first, second, max_tokens, of_chunk), label))
                chunk, made = [], made + 1
            position += 1
    return pairs


def plain_pair(
    documents: list[list[list[int]]], name: int, chunk: list[list[int]], target: int, law: PairLaw, choices: Choices
) -> tuple[list[int], list[int], int, int]:
    end = 1 + choices.below(0, len(chunk) - 1) if len(chunk) > 1 else 1
    first, rest = joined(chunk[:end]), joined(chunk[end:])
    coin = choices.uniform(1) < 0.5
    if law.task == "sentence_order" and len(chunk) > 1:
        return (rest, first, 1, 0) if coin else (first, rest, 0, 0)
    if law.task == "sentence_order" and not law.random_for_single:
        return first, [], -1, 0
    if len(chunk) > 1 and not coin:
        return first, rest, 0, 0
    for attempt in range(10):
        other = choices.below(8 + attempt, len(documents))
        if other != name:
            break
    start = choices.below(2, len(documents[other]))
    second: list[int] = []
    for sentence in documents[other][start:]:
        second += sentence
        if len(second) >= target - len(first):
            break
    return first, second, 1, len(chunk) - end


def truncate(first: list[int], second: list[int], max_tokens: int, choices: Choices) -> tuple[list[int], list[int]]:
    segments, cuts = [list(first), list(second)], [0, 0]
    while len(segments[0]) + len(segments[1]) > max_tokens:
        side = 0 if len(segments[0]) > len(segments[1]) else 1
        if choices.coin(32 + 2 * (cuts[side] // 64) + side, cuts[side] % 64):
            del segments[side][0]
        else:
            segments[side].pop()
        cuts[side] += 1
    return segments[0], segments[1]


def read_pairs(blocks: PairBlocks) -> list[tuple[list[int], list[int], int]]:
    batch = blocks.batch(np.arange(len(blocks)))
    parts = np.split(batch.ids, np.cumsum(batch.lengths)[:-1])
    return [
        (part[:first].tolist(), part[first:].tolist(), label)
        for part, first, label in zip(parts, batch.first_lengths.tolist(), batch.labels.tolist(), strict=True)
    ]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law.task}-{law.short_share}")
@given(
    documents=DOCUMENTS,
    shard_tokens=st.sampled_from([40, 1 << 27]),
    max_tokens=st.integers(2, 40),
    seed=st.integers(0, 99),
)
def test_pairs_are_those_of_the_plain_loop(
    law: PairLaw, documents: Documents, shard_tokens: int, max_tokens: int, seed: int
) -> None:
    with TemporaryDirectory() as folder:
        corpus = make_corpus(Path(folder), documents, shard_tokens=shard_tokens)
        if corpus.counts.documents < 2:
            return
        blocks = PairBlocks(corpus, length=max_tokens + 3, law=law, seed=seed, passes=2)
        text = documents_of(corpus)
        expected = [pair for index in range(2) for pair in plain_pairs(text, max_tokens, law, seed, index)]
        assert read_pairs(blocks) == expected


def test_long_cuts_use_a_coin_for_every_token(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path, [[[5] * 60, [4] * 70], [[3] * 90], [[2] * 150, [1]]])
    law = PairLaw(task="next_sentence")
    assert read_pairs(PairBlocks(corpus, length=43, law=law, seed=1)) == plain_pairs(
        documents_of(corpus), 40, law, 1, 0
    )


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> PreparedCorpus:
    generator = np.random.default_rng(0)
    documents = [
        [generator.integers(1, 4, generator.integers(2, 12)).tolist() for _ in range(generator.integers(3, 40))]
        for _ in range(400)
    ]
    return make_corpus(tmp_path_factory.mktemp("larger"), documents, shard_tokens=20_000)


def test_next_sentence_labels_follow_the_published_law(larger: PreparedCorpus) -> None:
    blocks = PairBlocks(larger, length=67, law=PairLaw(task="next_sentence"), seed=0, passes=5)
    batch = blocks.batch(np.arange(len(blocks)))
    assert set(batch.labels.tolist()) == {0, 1}
    assert 0.5 < (batch.labels == 1).mean() < 0.65  # more than half: a chunk of one sentence is always random
    assert batch.lengths.max() <= 64
    assert (batch.first_lengths > 0).all()
    assert (batch.lengths > batch.first_lengths).all()
    full = batch.lengths >= 56
    assert 0.6 < full.mean() < 0.95  # most pairs fill the block, short documents and ends of documents aside


def test_sentence_order_labels_are_balanced(larger: PreparedCorpus) -> None:
    blocks = PairBlocks(larger, length=67, law=PairLaw(task="sentence_order", short_share=0), seed=0, passes=5)
    labels = blocks.batch(np.arange(len(blocks))).labels
    asked = labels[labels >= 0]
    assert abs((asked == 1).mean() - 0.5) < 5 * (0.25 / len(asked)) ** 0.5
    assert 0 < (labels == -1).mean() < 0.2


def test_every_sentence_is_in_some_pair(larger: PreparedCorpus) -> None:
    """Unused sentences are put back: without cuts, nothing of the corpus is missing from a pass."""
    blocks = PairBlocks(larger, length=10_003, law=PairLaw(task="next_sentence", short_share=0), seed=0)
    records = blocks._passes[0]
    covered = np.zeros(larger.counts.tokens, bool)
    for pair in records:
        covered[pair["first"] : pair["first"] + pair["first_length"]] = True
        if pair["label"] == 0:
            covered[pair["second"] : pair["second"] + pair["second_length"]] = True
    assert covered.all()


def test_seeds_and_passes_draw_other_pairs(larger: PreparedCorpus) -> None:
    law = PairLaw(task="next_sentence")
    first, other = (read_pairs(PairBlocks(larger, length=67, law=law, seed=seed)) for seed in (0, 1))
    assert first != other
    both = read_pairs(PairBlocks(larger, length=67, law=law, seed=0, passes=2))
    assert both[: len(first)] == first
    assert both[len(first) :] != first


def test_random_segments_need_another_document(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path, [[[1, 2], [3]]])
    with pytest.raises(InputError, match="need at least two documents, the corpus has one; prepare with --documents"):
        PairBlocks(corpus, length=20, law=PairLaw(task="next_sentence"), seed=0)
    assert len(PairBlocks(corpus, length=20, law=PairLaw(task="sentence_order"), seed=0)) == 1


@given(st.integers(1, 200), st.integers(0, 200), st.integers(2, 120))
def test_truncation_in_one_step_is_truncation_token_by_token(first: int, second: int, max_tokens: int) -> None:
    left = [first, second]
    while sum(left) > max_tokens:
        left[0 if left[0] > left[1] else 1] -= 1
    lengths = pairs_module._truncated(np.array([first]), np.array([second]), max_tokens)
    assert [int(part[0]) for part in lengths] == left
