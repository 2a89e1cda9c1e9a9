"""Names in a corpus: against a plain search in the text, across chunks, and from the command line to the masks."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from spanlab.corpus import PrepareConfig, PreparedCorpus, gazetteer, plan_preparation, run_preparation
from spanlab.corpus.gazetteer import find_names, read_names
from spanlab.errors import InputError
from spanlab.pretraining.examples import Examples
from spanlab.pretraining.recipe import load_recipe
from spanlab.text.tokenizer import Kind
from spanlab.text.train import TokenizerConfig, train_tokenizer
from tests.cli.run import run_here

TEXT = """Ada Lovelace wrote to Charles Babbage. Babbage answered Ada in New York City, not in York.

The New York office of Lovelace was closed. Then New York City slept, and Ada Lovelaces followed.

So it was in York. City people came; Charles
Babbage stayed, and nobody named New York went.
"""
NAMES = ["Ada", "Ada Lovelace", "Charles Babbage", "New York", "New York City", "York City", "Zanzibar ☃"]
FOUND = [
    *("Ada Lovelace", "Charles Babbage", "Ada", "New York City"),
    *("New York", "New York City", "Ada"),
    *("Charles Babbage", "New York"),
]
"""Longest first, whole words, never across the end of a sentence ("York. City") or a document."""


def corpus_of(folder: Path, kind: Kind, text: str = TEXT) -> PreparedCorpus:
    tokenizer = train_tokenizer([text] * 3, TokenizerConfig(kind=kind, vocab_size=400 if kind == "bpe" else 130))
    (folder / "text.txt").write_text(text)
    plan = plan_preparation([str(folder / "text.txt")], PrepareConfig(documents="blank-line"))
    run_preparation(plan, tokenizer=tokenizer, out=folder / "corpus", workers=1)
    return PreparedCorpus.open(folder / "corpus")


def texts_of(corpus: PreparedCorpus, spans: list[tuple[int, int]]) -> list[str]:
    return [corpus.tokenizer.decode(corpus.read([a], [b]).ids.tolist()).strip() for a, b in spans]


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
@pytest.mark.parametrize("chunk", [1 << 22, 7, 1])
def test_names_are_found_as_whole_words_the_longest_first(
    kind: Kind, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gazetteer, "_CHUNK", chunk)
    corpus = corpus_of(tmp_path, kind)
    spans = list(find_names(corpus, NAMES))
    assert texts_of(corpus, spans) == FOUND
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_from_names_to_masks(tmp_path: Path) -> None:
    """The command finds the names, the law masks them whole, and a corpus prepared anew forgets them."""
    text = TEXT * 40
    corpus_of(tmp_path, "wordpiece", text)
    (tmp_path / "names.txt").write_text("\n".join(NAMES))
    command = ["prepare", str(tmp_path / "text.txt"), "--tokenizer", str(tmp_path / "corpus" / "tokenizer")]
    command += ["--documents", "blank-line", "--out", str(tmp_path / "again")]
    done = run_here(*command, "--spans", str(tmp_path / "names.txt"))
    assert done.returncode == 0, done.stderr
    assert "7 names, found" in done.stderr
    corpus = PreparedCorpus.open(tmp_path / "again")
    spans = [json.loads(line) for line in (corpus.folder / "spans.jsonl").read_text().splitlines()]
    named = np.zeros(corpus.counts.tokens, bool)
    for span in spans:
        named[span["start"] : span["end"]] = True
    settings = ["masking.law=given", "masking.given_share=1.0", "data.length=64", "masking.all_mask=true"]
    examples = Examples(corpus, load_recipe("spanbert", settings))
    tokens, batch = examples.token_batch(np.arange(len(examples))), examples.batch(np.arange(len(examples)))
    assert tokens.sources is not None
    block = tokens.block_of[batch.positions]
    place = tokens.sources[block] + batch.positions - tokens.starts[block] - 1  # [CLS] comes first
    assert named[place].mean() > 0.8 > 2 * named.mean()
    done = run_here(*command, "--overwrite")
    assert done.returncode == 0, done.stderr
    assert not (corpus.folder / "spans.jsonl").exists()
    refused = run_here("inspect", "masks", "--data", str(corpus.folder), "masking.law=given")
    assert refused.returncode == 2
    assert "no spans are given; set data.spans to a JSON-lines file of spans, or use spanlab prepare" in refused.stderr


def test_names_of_triples_and_mistakes(tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text("Ada Lovelace\tbornIn\tLondon\nAda Lovelace\tknows\tCharles Babbage\n")
    assert read_names(tmp_path / "facts.tsv") == ["Ada Lovelace", "London", "Charles Babbage"]
    (tmp_path / "empty.txt").write_text("\n \n")
    for name, message in (("empty.txt", "no names; write one name a line"), ("missing.txt", "no such file")):
        with pytest.raises(InputError, match=message):
            read_names(tmp_path / name)
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a file of UTF-8 text"):
        read_names(tmp_path / "bytes.txt")
