import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.corpus import PreparedCorpus
from spanlab.corpus.verify import find_damage
from spanlab.errors import InputError, SpanlabError
from tests.corpus.making import Documents, make_corpus

DOCUMENTS = st.lists(
    st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=6), min_size=1, max_size=5), min_size=1, max_size=8
)


def flat(documents: Documents) -> tuple[list[bool], list[bool], list[bool]]:
    """Word, sentence and document starts of every token, by a plain loop."""
    words, sentences, starts = [], [], []
    for document in documents:
        for sentence_number, sentence in enumerate(document):
            for word_number, letters in enumerate(sentence):
                for letter in range(letters):
                    words.append(letter == 0)
                    sentences.append(letter == 0 and word_number == 0)
                    starts.append(letter == 0 and word_number == 0 and sentence_number == 0)
    return words, sentences, starts


@given(DOCUMENTS, st.integers(1, 60), st.data())
def test_any_ranges_can_be_read(documents: Documents, shard_tokens: int, data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        corpus = make_corpus(Path(folder), documents, shard_tokens=shard_tokens)
        total = corpus.counts.tokens
        words, sentences, starts = flat(documents)
        if corpus.counts.duplicates:
            return  # the lengths below are those of the documents as written
        bounds = st.tuples(st.integers(0, total), st.integers(0, total)).map(sorted)
        ranges = np.array(data.draw(st.lists(bounds, max_size=6)), np.int64).reshape(-1, 2)
        everything = corpus.read([0], [total])
        text = corpus.read(ranges[:, 0], ranges[:, 1])
        positions = [position for first, last in ranges.tolist() for position in range(first, last)]
        assert everything.word_starts.tolist() == words
        assert everything.sentence_starts.tolist() == sentences
        assert text.ids.tolist() == everything.ids[positions].tolist()
        assert text.word_starts.tolist() == [words[position] for position in positions]
        assert text.sentence_starts.tolist() == [sentences[position] for position in positions]
        assert text.lengths.tolist() == (ranges[:, 1] - ranges[:, 0]).tolist()
        counts, where = corpus.starts_within("documents", ranges[:, 0], ranges[:, 1])
        assert where.tolist() == [position for position in positions if starts[position]]
        assert counts.tolist() == [sum(starts[first:last]) for first, last in ranges.tolist()]


def test_ranges_outside_are_refused(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path, [[[3, 2]]])
    for start, stop in ((0, 6), (-1, 2), (3, 2)):
        with pytest.raises(IndexError):
            corpus.read([start], [stop])


@pytest.fixture
def corpus(tmp_path: Path) -> PreparedCorpus:
    return make_corpus(tmp_path, [[[3, k], [1]] for k in range(1, 9)], shard_tokens=7)


def test_a_whole_corpus_has_no_damage(corpus: PreparedCorpus) -> None:
    assert len(corpus.shards) > 1
    assert find_damage(corpus.folder) == []


@pytest.mark.parametrize("name", ["shard-00000.bin", "shard-00001.bin", "token_counts.bin", "inputs.jsonl"])
def test_a_flipped_byte_is_found_and_named(corpus: PreparedCorpus, name: str) -> None:
    path = corpus.folder / name
    for position in (0, path.stat().st_size // 2, path.stat().st_size - 1):
        content = bytearray(path.read_bytes())
        content[position] ^= 1
        path.write_bytes(content)
        damage = find_damage(corpus.folder)
        assert [item.file for item in damage] == [name]
        assert "its bytes changed: sha256" in damage[0].cause
        content[position] ^= 1
        path.write_bytes(content)
    assert find_damage(corpus.folder) == []


def test_a_cut_or_missing_shard_is_found_when_it_is_opened(corpus: PreparedCorpus) -> None:
    path = corpus.folder / "shard-00001.bin"
    path.write_bytes(path.read_bytes()[:-1])
    assert [(item.file, item.cause) for item in find_damage(corpus.folder)] == [
        ("shard-00001.bin", f"{path.stat().st_size} bytes long, not {path.stat().st_size + 1} as written")
    ]
    with pytest.raises(InputError, match=r"shard-00001\.bin: the shard has \d+ bytes, the manifest says \d+"):
        PreparedCorpus.open(corpus.folder)
    path.unlink()
    assert [item.cause for item in find_damage(corpus.folder)] == ["missing"]
    with pytest.raises(InputError, match=r"shard-00001\.bin: a shard is missing"):
        PreparedCorpus.open(corpus.folder)


def test_another_corpus_s_manifest_is_found_out(corpus: PreparedCorpus, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = make_corpus(tmp_path / "other", [[[5, 5], [1]], [[3]]])
    (corpus.folder / "manifest.json").write_bytes((other.folder / "manifest.json").read_bytes())
    with pytest.raises(InputError, match=r"shard-00000\.bin: the shard has .* the manifest is another corpus's"):
        PreparedCorpus.open(corpus.folder)
    assert "shard-00000.bin" in [item.file for item in find_damage(corpus.folder)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("", "not valid JSON: cut short; prepare the corpus again"),
        ("[1]", "this is not the manifest of a prepared corpus"),
        ('{"name": "app", "icons": []}', "this is not the manifest of a prepared corpus"),
        ({"format_version": 99}, "the corpus has format version 99, this SpanLab reads 1; prepare it again"),
        ({"token_type": "float32"}, "'token_type' is 'float32'"),
        ({"extra": 1}, "unknown key 'extra'"),
    ],
)
def test_a_foreign_or_stale_manifest_is_refused(corpus: PreparedCorpus, change: Any, message: str) -> None:
    path = corpus.folder / "manifest.json"
    path.write_text(change if isinstance(change, str) else json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(SpanlabError, match=message) as caught:
        PreparedCorpus.open(corpus.folder)
    assert "manifest.json" in str(caught.value)


def test_counts_that_do_not_add_up_are_found(corpus: PreparedCorpus) -> None:
    path = corpus.folder / "manifest.json"
    content = json.loads(path.read_text())
    content["counts"]["sentences"] += 1
    path.write_text(json.dumps(content))
    assert [item.file for item in find_damage(corpus.folder)] == ["manifest.json"]


def test_another_tokenizer_is_refused(corpus: PreparedCorpus, tmp_path: Path) -> None:
    from tokenizers import Tokenizer as Backend
    from tokenizers import models

    from spanlab.text import Tokenizer

    other = Tokenizer(Backend(models.WordLevel({"a": 0}, unk_token="a")))
    with pytest.raises(
        InputError, match=r"model: this tokenizer \(word, 1 tokens, .* is not the one the corpus was prep"
    ):
        corpus.check_tokenizer(other, "model")
    corpus.check_tokenizer(corpus.tokenizer, "model")
    other.save(corpus.folder / "tokenizer")
    with pytest.raises(InputError, match="is not the one the corpus was prepared with"):
        _ = PreparedCorpus.open(corpus.folder).tokenizer
    assert [item.file for item in find_damage(corpus.folder)] == ["tokenizer"]


def test_folders_that_are_no_corpus_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="missing: no such folder; prepare a corpus: spanlab prepare"):
        PreparedCorpus.open(tmp_path / "missing")
    with pytest.raises(InputError, match=r"not a prepared corpus \(no manifest.json\); make one with spanlab prepare"):
        PreparedCorpus.open(tmp_path)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "..", "", "a\\b", "C:x", "a\x00b", "x" * 300])
def test_a_manifest_names_only_files_of_its_folder(corpus: PreparedCorpus, name: str) -> None:
    path = corpus.folder / "manifest.json"
    for section in ("shards", "files"):
        manifest = json.loads(path.read_text())
        manifest[section][0]["file"] = name
        path.write_text(json.dumps(manifest))
        with pytest.raises(InputError, match=r"manifest\.json: it names the file .*; the files of a corpus lie"):
            PreparedCorpus.open(corpus.folder)


@pytest.mark.parametrize("value", [-1, 1.5, "7", None, [], 2**62])
def test_a_count_of_the_wrong_kind_is_named(corpus: PreparedCorpus, value: object) -> None:
    path = corpus.folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["shards"][0]["tokens"] = value
    path.write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"manifest\.json: .*tokens"):
        PreparedCorpus.open(corpus.folder)


def test_counts_must_add_up_before_anything_is_mapped(corpus: PreparedCorpus) -> None:
    path = corpus.folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["counts"]["tokens"] += 1
    path.write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"its shards hold \d+ tokens, its counts say"):
        PreparedCorpus.open(corpus.folder)


def test_damaged_boundaries_are_found_when_they_are_used(corpus: PreparedCorpus) -> None:
    shard = corpus.folder / corpus.manifest.shards[0].file
    data = bytearray(shard.read_bytes())
    data[-4:] = b"\xff\xff\xff\xff"
    data[-12:-8] = b"\xff\xff\xff\xff"
    shard.write_bytes(data)
    with pytest.raises(InputError, match=r"shard-00000\.bin: damaged: its documents do not follow one another"):
        np.asarray(PreparedCorpus.open(corpus.folder).shards[0].documents)


def test_ids_outside_the_vocabulary_are_found_when_they_are_read(corpus: PreparedCorpus) -> None:
    shard = corpus.folder / corpus.manifest.shards[0].file
    data = bytearray(shard.read_bytes())
    data[:2] = b"\xff\xff"
    shard.write_bytes(data)
    with pytest.raises(InputError, match="token ids outside the vocabulary"):
        PreparedCorpus.open(corpus.folder).read([0], [4])
