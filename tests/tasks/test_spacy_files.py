"""`.spacy` files as labelled data: what is read of them, what is left alone, and damaged ones."""

import random
import zlib
from pathlib import Path
from typing import Any

import pytest

spacy = pytest.importorskip("spacy")

from spacy.tokens import DocBin  # noqa: E402

from spanlab.errors import InputError  # noqa: E402
from spanlab.tasks.checking import check_file  # noqa: E402
from spanlab.tasks.config import TaskDataConfig  # noqa: E402
from spanlab.tasks.examples import read_labelled, read_unlabelled  # noqa: E402
from spanlab.tasks.ner.task import NamedEntities  # noqa: E402


def make_docs() -> list[Any]:
    nlp = spacy.blank("en")
    docs = [nlp("Ada Lovelace lived in London."), nlp("Nothing here."), nlp("The Bank of England failed.")]
    docs[0].ents = [docs[0].char_span(0, 12, label="PER"), docs[0].char_span(22, 28, label="LOC")]
    docs[1].ents = []
    docs[2].spans["sc"] = [docs[2].char_span(4, 19, label="ORG"), docs[2].char_span(12, 19, label="LOC")]
    docs[2].spans["coref_1"] = [docs[2][0:2]]
    docs[0].user_data["note"] = 1
    return docs


EXPECTED = [
    ("Ada Lovelace lived in London.", [(0, 12, "PER"), (22, 28, "LOC")]),
    ("Nothing here.", []),
    ("The Bank of England failed.", [(4, 19, "ORG"), (12, 19, "LOC")]),
]


def spans_of(source: Any) -> list[tuple[str, list[tuple[int, int, str]]]]:
    examples = read_labelled(NamedEntities, source, TaskDataConfig()).examples
    return [(example.text, [(span.start, span.end, span.label) for span in example.spans]) for example in examples]


def test_a_file_and_its_documents_give_the_same_examples(tmp_path: Path) -> None:
    path = tmp_path / "train.spacy"
    DocBin(docs=make_docs(), store_user_data=True).to_disk(path)
    assert spans_of(str(path)) == EXPECTED
    assert spans_of(make_docs()) == EXPECTED
    assert check_file(NamedEntities, str(path), TaskDataConfig()).clean


def test_documents_without_annotation_are_texts_and_no_training_data(tmp_path: Path) -> None:
    path = tmp_path / "texts.spacy"
    DocBin(docs=[spacy.blank("en")("Ada lived.")]).to_disk(path)
    assert [example.text for example in read_unlabelled(NamedEntities, str(path)).examples] == ["Ada lived."]
    with pytest.raises(InputError, match=r"texts\.spacy:1: the field 'spans' is missing"):
        spans_of(str(path))


def test_user_data_is_never_read(tmp_path: Path) -> None:
    docs = DocBin(docs=make_docs(), store_user_data=True)
    docs.user_data = [b"\xc1 no msgpack"] * 3
    docs.to_disk(tmp_path / "a.spacy")
    assert spans_of(str(tmp_path / "a.spacy")) == EXPECTED


def test_files_that_are_something_else(tmp_path: Path) -> None:
    path = tmp_path / "a.spacy"
    for content in (b"", b"text", zlib.compress(b"text"), zlib.compress(b"\x93\x01\x02\x03")):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"a\.spacy: not a file of spaCy documents"):
            spans_of(str(path))
    path.write_bytes(zlib.compress(b" " * (70 << 20)))
    with pytest.raises(InputError, match="expands to more than 200 times its size"):
        spans_of(str(path))


def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    path, chance = tmp_path / "a.spacy", random.Random(3)
    plain = zlib.decompress(DocBin(docs=make_docs()).to_bytes())
    refused = 0
    for _ in range(150):
        damaged = bytearray(plain)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(zlib.compress(bytes(damaged)))
        try:
            spans_of(str(path))
        except InputError:
            refused += 1
    assert refused > 20
