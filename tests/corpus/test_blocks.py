from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.corpus import (
    BlockBatch,
    Blocks,
    DocumentBlocks,
    FullSentenceBlocks,
    PairBlocks,
    PairLaw,
    PreparedCorpus,
    StreamBlocks,
)
from spanlab.corpus.blocks import cached_index
from spanlab.errors import InputError
from tests.corpus.making import Documents, joined, make_corpus

DOCUMENTS = st.lists(
    st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=8), min_size=1, max_size=6), min_size=1, max_size=8
)
SHARDS = st.sampled_from([40, 1 << 27])
SEP = 3


def with_corpus(documents: Documents, shard_tokens: int, check: Callable[[PreparedCorpus], None]) -> None:
    with TemporaryDirectory() as folder:
        check(make_corpus(Path(folder), documents, shard_tokens=shard_tokens))


def split(batch: BlockBatch) -> list[list[int]]:
    return [part.tolist() for part in np.split(batch.ids, np.cumsum(batch.lengths)[:-1])]


def everything(blocks: Blocks) -> BlockBatch:
    return blocks.batch(np.arange(len(blocks)))


def sentences_of(corpus: PreparedCorpus) -> list[list[list[list[int]]]]:
    """Words of sentences of documents of shards, as ids."""
    shards = []
    for shard in corpus.shards:
        words = np.unpackbits(shard.words, bitorder="little", count=len(shard.tokens)).astype(bool)
        documents = []
        bounds = [*shard.documents.tolist(), len(shard.tokens)]
        for first, last in pairwise(bounds):
            starts = [start for start in shard.sentences.tolist() if first <= start < last]
            documents.append(
                [
                    [part.tolist() for part in np.split(shard.tokens[a:b], np.flatnonzero(words[a:b])[1:])]
                    for a, b in zip(starts, [*starts[1:], last], strict=True)
                ]
            )
        shards.append(documents)
    return shards


def pieces_of(sentence: list[list[int]], max_tokens: int) -> list[list[int]]:
    """A sentence, split between words where it is longer than `max_tokens`; a word longer than that is cut."""
    if sum(map(len, sentence)) <= max_tokens:
        return [joined(sentence)]
    pieces: list[list[int]] = [[]]
    for word in sentence:
        if pieces[-1] and len(pieces[-1]) + len(word) > max_tokens:
            pieces.append([])
        pieces[-1] = pieces[-1] + word
        while len(pieces[-1]) > max_tokens:
            pieces[-1:] = [pieces[-1][:max_tokens], pieces[-1][max_tokens:]]
    return pieces


def greedy_documents(corpus: PreparedCorpus, max_tokens: int) -> list[list[int]]:
    blocks: list[list[int]] = []
    for shard in sentences_of(corpus):
        for document in shard:
            blocks.append([])
            for sentence in document:
                for piece in pieces_of(sentence, max_tokens):
                    if len(blocks[-1]) + len(piece) > max_tokens:
                        blocks.append([])
                    blocks[-1] = blocks[-1] + piece
    return blocks


def greedy_full_sentences(corpus: PreparedCorpus, max_tokens: int) -> list[list[int]]:
    blocks: list[list[int]] = []
    for shard in sentences_of(corpus):
        blocks.append([])
        for document in shard:
            separator = [SEP]
            for sentence in document:
                for piece in pieces_of(sentence, max_tokens):
                    joined = separator + piece if blocks[-1] else piece
                    if len(blocks[-1]) + len(joined) > max_tokens:
                        blocks.append(piece)
                    else:
                        blocks[-1] = blocks[-1] + joined
                    separator = []
    return blocks


@given(DOCUMENTS, SHARDS, st.integers(1, 40))
def test_document_blocks_are_the_greedy_packing(documents: Documents, shard_tokens: int, max_tokens: int) -> None:
    def check(corpus: PreparedCorpus) -> None:
        batch = everything(DocumentBlocks(corpus, length=max_tokens + 2))
        assert split(batch) == greedy_documents(corpus, max_tokens)
        whole = corpus.read([0], [corpus.counts.tokens])
        assert batch.ids.tolist() == whole.ids.tolist()  # every token once, in order
        assert batch.sentence_starts.tolist() == whole.sentence_starts.tolist()
        firsts = np.cumsum(batch.lengths) - batch.lengths
        assert np.flatnonzero(batch.word_starts != whole.word_starts).tolist() == [
            first for first in firsts.tolist() if not whole.word_starts[first]
        ]
        assert batch.labels.tolist() == [-1] * len(batch.lengths)
        assert batch.first_lengths.tolist() == batch.lengths.tolist()

    with_corpus(documents, shard_tokens, check)


@given(DOCUMENTS, SHARDS, st.integers(1, 40))
def test_full_sentence_blocks_are_the_greedy_packing(documents: Documents, shard_tokens: int, max_tokens: int) -> None:
    def check(corpus: PreparedCorpus) -> None:
        batch = everything(FullSentenceBlocks(corpus, length=max_tokens + 2))
        assert split(batch) == greedy_full_sentences(corpus, max_tokens)
        text = batch.ids != SEP
        whole = corpus.read([0], [corpus.counts.tokens])
        assert batch.ids[text].tolist() == whole.ids.tolist()
        assert batch.sentence_starts[text].tolist() == whole.sentence_starts.tolist()
        assert batch.word_starts[~text].all()
        assert not batch.sentence_starts[~text].any()
        assert batch.lengths.max() <= max_tokens

    with_corpus(documents, shard_tokens, check)


@pytest.mark.parametrize("separator", [None, SEP])
@given(documents=DOCUMENTS, shard_tokens=SHARDS, max_tokens=st.integers(1, 40), streams=st.integers(1, 6))
def test_streams_continue_without_a_gap_and_hold_every_token_once(
    separator: int | None, documents: Documents, shard_tokens: int, max_tokens: int, streams: int
) -> None:
    def check(corpus: PreparedCorpus) -> None:
        stream: list[int] = []
        for shard in sentences_of(corpus):
            for document in shard:
                stream += [token for sentence in document for word in sentence for token in word]
                stream += [] if separator is None else [separator]
        if streams > len(stream):
            with pytest.raises(InputError, match="streams cannot be made of"):
                StreamBlocks(corpus, length=max_tokens, streams=streams, separator_id=separator)
            return
        blocks = StreamBlocks(corpus, length=max_tokens, streams=streams, separator_id=separator)
        blocks_ids = split(everything(blocks))
        whole = [joined(blocks_ids[stream_index::streams]) for stream_index in range(streams)]
        assert joined(whole) == stream
        sizes = [len(text) for text in whole]
        assert max(sizes) - min(sizes) <= 1
        assert all(len(block) == max_tokens for block in blocks_ids[:-streams])
        assert all(blocks_ids)

    with_corpus(documents, shard_tokens, check)


def test_streams_with_a_stride_see_tokens_again(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path, MANY, shard_tokens=100)
    whole = corpus.read([0], [corpus.counts.tokens]).ids.tolist()
    size = len(whole) // 2
    blocks = StreamBlocks(corpus, length=8, stride=4, streams=2)
    first, second = whole[: len(whole) - size], whole[len(whole) - size :]
    expected = [part[k : k + 8] for k in range(0, len(first), 4) for part in (first, second) if part[k : k + 8]]
    assert split(everything(blocks)) == expected
    with pytest.raises(InputError, match="a stride of 9 does not fit blocks of 8 tokens"):
        StreamBlocks(corpus, length=8, stride=9)


def all_blocks(corpus: PreparedCorpus) -> list[Blocks]:
    return [
        DocumentBlocks(corpus, length=12),
        FullSentenceBlocks(corpus, length=12),
        StreamBlocks(corpus, length=9, streams=3),
        StreamBlocks(corpus, length=9, streams=3, separator_id=SEP),
        PairBlocks(corpus, length=23, law=PairLaw(task="next_sentence"), seed=0, passes=2),
        PairBlocks(corpus, length=23, law=PairLaw(task="sentence_order"), seed=0),
    ]


MANY = [[[[1, 4, 2], [5, 2], [3, 3, 3, 1]], [[2, 2]], [[7, 1, 1], [2]]][k % 3] + [[k % 9 + 1] * 3] for k in range(30)]


@pytest.mark.parametrize("case", range(6))
def test_a_block_is_the_same_in_any_batch(tmp_path: Path, case: int) -> None:
    corpus = make_corpus(tmp_path, MANY, shard_tokens=100)
    blocks = all_blocks(corpus)[case]
    whole = everything(blocks)
    firsts = np.cumsum(whole.lengths) - whole.lengths
    order = np.random.default_rng(0).permutation(len(blocks))
    mixed = blocks.batch(np.concatenate((order, order[:5])))
    for name in ("ids", "word_starts", "sentence_starts"):
        expected = [getattr(whole, name)[firsts[k] : firsts[k] + whole.lengths[k]] for k in mixed.indices]
        assert getattr(mixed, name).tolist() == np.concatenate(expected).tolist()
    for name in ("lengths", "first_lengths", "labels"):
        assert getattr(mixed, name).tolist() == getattr(whole, name)[mixed.indices].tolist()
    assert mixed.ids.dtype == np.int64
    empty = blocks.batch([])
    assert len(empty.ids) == len(empty.lengths) == 0


@pytest.mark.parametrize("case", range(6))
def test_indices_outside_are_refused(tmp_path: Path, case: int) -> None:
    blocks = all_blocks(make_corpus(tmp_path, MANY))[case]
    for index in (-1, len(blocks)):
        with pytest.raises(IndexError):
            blocks.batch([index])


def test_an_index_is_made_once_and_mapped_afterwards(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path, MANY)
    first = everything(DocumentBlocks(corpus, length=20))
    files = list((corpus.folder / "blocks").iterdir())
    assert [path.name.rsplit("-", 1)[0] for path in files] == ["documents-18"]

    def fail() -> np.ndarray:
        raise AssertionError("made again")

    kept = cached_index(corpus, "documents-18", fail)
    assert kept.nbytes == 8 * (len(first.lengths) + 1)
    assert not kept.flags.writeable
    files[0].write_bytes(files[0].read_bytes()[:-9])  # cut by a full disk: made again
    assert everything(DocumentBlocks(corpus, length=20)).lengths.tolist() == first.lengths.tolist()


def test_an_index_of_another_corpus_is_not_taken(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path, MANY)
    assert len(DocumentBlocks(corpus, length=20)) > 1
    kept = {path.name: path.read_bytes() for path in (corpus.folder / "blocks").iterdir()}
    (tmp_path / "other").mkdir()
    other = make_corpus(tmp_path / "other", MANY[:1])
    (other.folder / "blocks").mkdir()
    for name, content in kept.items():
        (other.folder / "blocks" / name).write_bytes(content)
    assert everything(DocumentBlocks(other, length=20)).lengths.sum() == other.counts.tokens


def test_a_folder_that_cannot_be_written_to_is_no_hindrance(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path, MANY)
    (corpus.folder / "blocks").write_text("in the way")
    assert everything(DocumentBlocks(corpus, length=20)).lengths.sum() == corpus.counts.tokens


def test_lengths_too_short_for_text_are_refused(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path, MANY)
    with pytest.raises(InputError, match="a length of 2 leaves 0 tokens for text beside 2 special ones"):
        DocumentBlocks(corpus, length=2)
    with pytest.raises(InputError, match="too short for two segments"):
        PairBlocks(corpus, length=4, law=PairLaw(task="next_sentence"), seed=0)


def test_bidirectional_streams(tmp_path: Path) -> None:
    """The second half of the streams are the texts of the first half from their end; words begin where they ended."""
    corpus = make_corpus(tmp_path, MANY, shard_tokens=100)
    whole = corpus.read([0], [corpus.counts.tokens])
    size = len(whole.ids) // 2
    blocks = StreamBlocks(corpus, length=8, stride=4, streams=4, bidirectional=True)
    batch = everything(blocks)
    assert (batch.lengths == 8).all()
    streams = [whole.ids[: len(whole.ids) - size], whole.ids[len(whole.ids) - size :]]
    streams += [stream[::-1] for stream in streams]
    assert len(blocks) == 4 * (1 + (size - 8) // 4)
    expected = [streams[index % 4][index // 4 * 4 :][:8].tolist() for index in range(len(blocks))]
    assert split(batch) == expected
    # Word by word, a block that is turned round has the words of the block in the stream, the other way round.
    starts = whole.word_starts[: len(whole.ids) - size]
    end = len(starts)
    words = np.split(streams[0][end - 8 :], np.flatnonzero(starts[end - 8 :])[starts[end - 8] * 1 :])
    turned = np.flatnonzero(batch.word_starts[16:24])
    assert [part[::-1].tolist() for part in np.split(batch.ids[16:24], turned[1:])][::-1] == [w.tolist() for w in words]
    with pytest.raises(InputError, match="3 streams cannot be read half"):
        StreamBlocks(corpus, length=8, streams=3, bidirectional=True)
    with pytest.raises(InputError, match="no whole block of 600 tokens"):
        StreamBlocks(corpus, length=600, streams=4, whole=True)


@pytest.mark.parametrize("position", [-40, -50, 100, 3, -1])
def test_a_damaged_index_is_computed_again(tmp_path: Path, position: int) -> None:
    corpus = make_corpus(tmp_path, [[[1, 2, 3, 4]] * 6] * 5)
    before = split(DocumentBlocks(corpus, length=12, special_tokens=2).batch(np.arange(3)))
    (path,) = (corpus.folder / "blocks").iterdir()
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[position] ^= 0x41
    path.write_bytes(damaged)
    assert split(DocumentBlocks(corpus, length=12, special_tokens=2).batch(np.arange(3))) == before
    assert path.read_bytes() == whole
