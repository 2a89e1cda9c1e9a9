"""Every export, read back by independent readers, gives the objects that the passages hold."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.errors import InputError
from spanlab.samples import Answer, Mention, Pair, Passage, Question, Relation, load, parse
from spanlab.samples.export import Selection, export
from spanlab.samples.formats import tokenize
from tests.samples.format_readers import (
    ColumnDocument,
    read_conll_2012,
    read_conll_columns,
    read_json_lines,
    read_semeval,
    read_squad,
    read_table,
)

SPLITS = ("train", "dev", "test")


def of_split(split: str) -> list[Passage]:
    return [passage for passage in load() if passage.split == split]


def write(task: str, out: Path, passages: Sequence[Passage] | None = None, **selection: str) -> list[Path]:
    files = export(load() if passages is None else passages, task, out, Selection(**selection))
    assert sorted(file.path for file in files) == sorted(out.iterdir())
    return [file.path for file in files]


def squeezed(text: str) -> str:
    return re.sub(r"\s", "", text)


def squeeze(passage: Passage, start: int, end: int) -> tuple[int, int]:
    """A span in the text without its spaces."""
    return len(squeezed(passage.text[:start])), len(squeezed(passage.text[:end]))


def outermost(passage: Passage) -> dict[tuple[int, int], str | None]:
    spans = {(entity.start, entity.end): entity.label for entity in passage.entities}
    inner = {b for a, b in product(spans, spans) if a != b and a[0] <= b[0] and b[1] <= a[1]}
    return {squeeze(passage, *span): label for span, label in spans.items() if span not in inner}


@pytest.mark.parametrize("label", ["topic", "sentiment"])
def test_classification(tmp_path: Path, label: str) -> None:
    write("classification", tmp_path, label=label)
    for split in SPLITS:
        wanted = [(p.id, p.text, getattr(p, label)) for p in of_split(split) if getattr(p, label)]
        assert [tuple(record.values()) for record in read_json_lines(tmp_path / f"{split}.jsonl")] == wanted
        rows = read_table(tmp_path / f"{split}.tsv")
        assert [(row["id"], row["text"], row["label"]) for row in rows] == [
            (name, text.replace("\n", " "), value) for name, text, value in wanted
        ]


def test_similarity(tmp_path: Path) -> None:
    write("similarity", tmp_path)
    for split in SPLITS:
        wanted = [pair for passage in of_split(split) for pair in passage.pairs]
        records = read_json_lines(tmp_path / f"{split}.jsonl")
        assert len({record["id"] for record in records}) == len(records)
        for found in (records, read_table(tmp_path / f"{split}.tsv")):
            assert {record["label"] for record in found} == {"same", "different"}
            pairs = [Pair(text_a=r["text_a"], text_b=r["text_b"], same=r["label"] == "same") for r in found]
            assert pairs == wanted


def test_entities_in_json_lines_keep_nested_ones(tmp_path: Path) -> None:
    write("ner", tmp_path)
    for split in SPLITS:
        for passage, record in zip(of_split(split), read_json_lines(tmp_path / f"{split}.jsonl"), strict=True):
            assert (record["id"], record["text"]) == (passage.id, passage.text)
            found = tuple(Mention(**span) for span in record["spans"])
            assert found == tuple(replace(entity, entity=None) for entity in passage.entities)


def check_words(document: ColumnDocument, passage: Passage) -> None:
    assert document.text == squeezed(passage.text)
    sentences = ["".join(words) for words in document.words]
    assert sentences == [squeezed(passage.span(sentence)) for sentence in passage.sentences]
    if passage.language != "en":
        assert all(len(word) == 1 for words in document.words for word in words)


def test_entities_in_columns_are_the_outermost(tmp_path: Path) -> None:
    write("ner", tmp_path)
    for split in SPLITS:
        for passage, document in zip(of_split(split), read_conll_columns(tmp_path / f"{split}.conll"), strict=True):
            check_words(document, passage)
            assert document.entities == outermost(passage)


def test_questions_in_json_lines(tmp_path: Path) -> None:
    write("qa", tmp_path)
    for split in SPLITS:
        wanted = [(p.text, replace(q, tempting=None)) for p in of_split(split) for q in p.questions]
        found = []
        for record in read_json_lines(tmp_path / f"{split}.jsonl"):
            answers = tuple(Answer(**answer) for answer in record["answers"])
            found.append((record["context"], Question(id=record["id"], text=record["question"], answers=answers)))
        assert found == wanted


def squad_answers(answers: list[dict[str, Any]]) -> tuple[Answer, ...]:
    return tuple(Answer(start=answer["answer_start"], text=answer["text"]) for answer in answers)


def test_questions_in_squad(tmp_path: Path) -> None:
    write("qa", tmp_path)
    for split in SPLITS:
        wanted = [(p.title, p.text, question) for p in of_split(split) for question in p.questions]
        found = []
        for read in read_squad(tmp_path / f"{split}.json"):
            answers, plausible = squad_answers(read["answers"]), squad_answers(read.get("plausible_answers", []))
            tempting = plausible[0] if plausible else None
            question = Question(id=read["id"], text=read["question"], answers=answers, tempting=tempting)
            found.append((read["title"], read["context"], question))
        assert found == wanted


def test_clusters_in_json_lines(tmp_path: Path) -> None:
    write("coref", tmp_path)
    for split in SPLITS:
        for passage, record in zip(of_split(split), read_json_lines(tmp_path / f"{split}.jsonl"), strict=True):
            assert (record["id"], record["text"]) == (passage.id, passage.text)
            assert record["clusters"] == [[[m.start, m.end] for m in cluster] for cluster in passage.clusters]
            assert ("speakers" in record) == (passage.style == "dialogue")
            for sentence in passage.sentences if "speakers" in record else ():
                around = [name for start, end, name in record["speakers"] if start <= sentence.start < end]
                assert around == [sentence.speaker]


def test_clusters_in_conll_2012(tmp_path: Path) -> None:
    write("coref", tmp_path)
    for split in SPLITS:
        documents = read_conll_2012(tmp_path / f"{split}.conll")
        assert list(documents) == [passage.id for passage in of_split(split)]
        for passage in of_split(split):
            document = documents[passage.id]
            check_words(document, passage)
            clusters = {frozenset(squeeze(passage, m.start, m.end) for m in c) for c in passage.clusters}
            assert {frozenset(cluster) for cluster in document.clusters.values()} == clusters
            assert len(document.clusters) == len(passage.clusters)
            assert document.entities == outermost(passage)
            speakers = [{(sentence.speaker or "-").replace(" ", "_")} for sentence in passage.sentences]
            assert document.speakers == speakers


def numbers(passage: Passage) -> dict[tuple[int, int], int | None]:
    return {(entity.start, entity.end): entity.entity for entity in passage.entities}


def as_relation(passage: Passage, head: tuple[int, int], label: str, tail: tuple[int, int]) -> Relation:
    head_number, tail_number = numbers(passage)[head], numbers(passage)[tail]
    assert head_number
    assert tail_number
    return Relation(head=head_number, label=label, tail=tail_number)


def test_relations_in_json_lines(tmp_path: Path) -> None:
    write("relation", tmp_path)
    for split in SPLITS:
        for passage, record in zip(of_split(split), read_json_lines(tmp_path / f"{split}.jsonl"), strict=True):
            assert (record["id"], record["text"]) == (passage.id, passage.text)
            spans = [(entity["start"], entity["end"]) for entity in record["entities"]]
            assert [Mention(**entity) for entity in record["entities"]] == [
                replace(entity, entity=None) for entity in passage.entities
            ]
            found = [as_relation(passage, spans[r["head"]], r["label"], spans[r["tail"]]) for r in record["relations"]]
            assert tuple(found) == passage.relations


def test_relations_in_semeval(tmp_path: Path) -> None:
    write("relation", tmp_path)
    for split in SPLITS:
        by_id = {passage.id: passage for passage in of_split(split)}
        found: dict[str, list[Relation]] = {name: [] for name in by_id}
        for item in read_semeval(tmp_path / f"{split}.txt"):
            passage = by_id[item.comment]
            start = passage.text.replace("\n", " ").index(item.text)
            assert start in {sentence.start for sentence in passage.sentences}
            assert start + len(item.text) in {sentence.end for sentence in passage.sentences}
            e1, e2 = ((start + first, start + last) for first, last in (item.e1, item.e2))
            assert e1[0] <= e2[0]
            head, tail = (e1, e2) if item.forward else (e2, e1)
            found[passage.id].append(as_relation(passage, head, item.label, tail))
        assert found == {name: list(passage.relations) for name, passage in by_id.items()}


NAMES = """\
## en-law-01 style=news split=dev
title: t
- {1:PER|Ada} sang.
- {2:LOC|Ulm} and {3:ORG|{2:LOC|Ulm} Choir} heard {1:PER|Ada} in {5:LOC|Bern}.
- So did the {4:ORG|{5:LOC|Bern} Band}, later joined by {6:PER|Bo}.

rel: 1 lives_in 2
rel: 3 located_in 2
rel: 4 located_in 5
rel: 6 works_for 3
"""


def test_a_relation_is_told_by_the_nearest_names(tmp_path: Path) -> None:
    write("relation", tmp_path, parse(NAMES))
    (record,) = read_json_lines(tmp_path / "dev.jsonl")
    spans = [record["text"][entity["start"] : entity["end"]] for entity in record["entities"]]
    assert spans == ["Ada", "Ulm", "Ulm Choir", "Ulm", "Ada", "Bern", "Bern Band", "Bern", "Bo"]
    assert [(r["head"], r["label"], r["tail"]) for r in record["relations"]] == [
        (4, "lives_in", 3),
        (2, "located_in", 1),
        (6, "located_in", 7),
        (8, "works_for", 2),
    ]
    beside, backward, nested, across = read_semeval(tmp_path / "dev.txt")
    assert beside.text == backward.text == "Ulm and Ulm Choir heard Ada in Bern."
    assert (beside.e1, beside.e2, beside.forward) == ((8, 11), (24, 27), False)
    assert (backward.e1, backward.e2, backward.forward) == ((0, 3), (8, 17), False)
    assert nested.text == "So did the Bern Band, later joined by Bo."
    assert (nested.e1, nested.e2, nested.forward) == ((11, 20), (11, 15), True)
    assert across.text == f"{beside.text} {nested.text}"


def test_summarisation(tmp_path: Path) -> None:
    write("summarisation", tmp_path)
    for split in SPLITS:
        records = read_json_lines(tmp_path / f"{split}.jsonl")
        summaries = read_json_lines(tmp_path / f"{split}.summary.jsonl")
        for passage, record, summary in zip(of_split(split), records, summaries, strict=True):
            assert record["sentences"] == [passage.span(sentence) for sentence in passage.sentences]
            assert record["labels"] == [int(sentence.key) for sentence in passage.sentences]
            assert summary["text"] == passage.text
            left = squeezed(summary["summary"])
            for sentence in passage.sentences:
                if sentence.key:
                    assert left.startswith(squeezed(passage.span(sentence)))
                    left = left.removeprefix(squeezed(passage.span(sentence)))
            assert left == ""


def test_generation(tmp_path: Path) -> None:
    write("generation", tmp_path)
    for split in SPLITS:
        found = [(r["id"], r["source"], r["target"]) for r in read_json_lines(tmp_path / f"{split}.jsonl")]
        assert found == [(passage.id, passage.text, passage.title) for passage in of_split(split)]


def test_a_selection_narrows_down(tmp_path: Path) -> None:
    paths = write("qa", tmp_path, language="ko", split="train", format="jsonl")
    assert [path.name for path in paths] == ["train.jsonl"]
    found = {record["id"] for record in read_json_lines(paths[0])}
    assert found == {q.id for p in load() if p.language == "ko" and p.split == "train" for q in p.questions}


def test_a_split_without_examples_gets_no_file(tmp_path: Path) -> None:
    assert [path.name for path in write("ner", tmp_path, parse(NAMES))] == ["dev.jsonl", "dev.conll"]


@pytest.mark.parametrize(
    ("task", "selection", "cause"),
    [
        ("coreference", Selection(), "unknown task 'coreference' (did you mean 'coref'?)"),
        ("qa", Selection(format="squat"), "unknown format of qa 'squat' (did you mean 'squad'?)"),
        ("qa", Selection(split="deb"), "unknown split 'deb' (did you mean 'dev'?)"),
        ("qa", Selection(language="jp"), "unknown language 'jp'"),
        ("qa", Selection(label="topic"), "qa has no choice of labels"),
        ("classification", Selection(label="topics"), "did you mean 'topic'?"),
        ("classification", Selection(label="sentiment"), "no passage has an example"),
    ],
)
def test_what_is_not_there_is_refused_and_nothing_written(
    tmp_path: Path, task: str, selection: Selection, cause: str
) -> None:
    with pytest.raises(InputError, match=re.escape(cause)):
        export(parse(NAMES), task, tmp_path / "out", selection)
    assert not (tmp_path / "out").exists()


def test_a_folder_with_files_is_kept_unless_told(tmp_path: Path) -> None:
    (tmp_path / "dev.jsonl").write_text("mine")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty"):
        export(parse(NAMES), "ner", tmp_path, Selection())
    assert (tmp_path / "dev.jsonl").read_text() == "mine"
    export(parse(NAMES), "ner", tmp_path, Selection(), overwrite=True)
    assert read_json_lines(tmp_path / "dev.jsonl")[0]["id"] == "en-law-01"
    assert (tmp_path / "notes.txt").read_text() == "mine"
    for place in (tmp_path / "notes.txt", tmp_path / "notes.txt" / "below"):
        with pytest.raises(InputError):
            export(parse(NAMES), "ner", place, Selection(), overwrite=True)


def text_passage(language: str, *sentences: str) -> Passage:
    body = "".join(f"- {sentence}\n" for sentence in sentences)
    return parse(f"## {language}-law-01 style=news split=dev\ntitle: t\n{body}")[0]


@pytest.mark.parametrize(
    ("sentence", "tokens"),
    [
        ("Ada's well-known O'Brien.", "Ada 's well - known O'Brien ."),
        ("They don't owe 12,500.50 at 9:30 a.m. today, I'm sure.",
         "They do n't owe 12,500.50 at 9:30 a.m. today , I 'm sure ."),
        ('He said: "Go!" (In 1998.)', 'He said : " Go ! " ( In 1998 . )'),
        ("The singers' Übung cost 3.", "The singers ' Übung cost 3 ."),
    ],
)  # fmt: skip
def test_english_tokens(sentence: str, tokens: str) -> None:
    passage = text_passage("en", sentence)
    assert [passage.text[a:b] for a, b in tokenize(passage, passage.sentences[0])] == tokens.split(" ")


readable = st.text(st.characters(codec="utf-8", exclude_characters="{}|", exclude_categories=["C", "Z"]), min_size=1)
sentences = st.lists(st.one_of(readable, st.text("ab'n't.9,:- sé", min_size=1)), min_size=1, max_size=6).map("x".join)


@given(st.sampled_from(["en", "zh", "ko"]), sentences)
def test_tokens_hold_every_character_once(language: str, sentence: str) -> None:
    sentence = " ".join(sentence.split())
    passage = replace(text_passage(language, "x"), text=sentence)
    whole = replace(passage.sentences[0], start=0, end=len(sentence))
    tokens = tokenize(passage, whole)
    assert "".join(sentence[a:b] for a, b in tokens) == squeezed(sentence)
    assert all(a < b and not re.search(r"\s", sentence[a:b]) for a, b in tokens)
    assert all(before[1] <= after[0] for before, after in pairwise(tokens))


def test_an_entity_that_cuts_a_token_is_refused_in_columns(tmp_path: Path) -> None:
    cut = parse("## en-law-01 style=news split=dev\ntitle: t\n- {LOC|Ulm}er Platz.\n")
    for task in ("ner", "coref"):
        with pytest.raises(InputError, match="en-law-01: 'Ulm' starts or ends inside a token"):
            export(cut, task, tmp_path / "out", Selection())
    assert write("ner", tmp_path / "out", cut, format="jsonl")


def test_json_lines_are_readable_by_people(tmp_path: Path) -> None:
    (path,) = write("ner", tmp_path, language="zh", split="train", format="jsonl")
    first = path.read_text(encoding="utf-8").split("\n")[0]
    assert "\\u" not in first
    assert json.loads(first)["text"] == next(p for p in load() if p.language == "zh" and p.split == "train").text


def test_turns_of_a_dialogue_follow_each_other(tmp_path: Path) -> None:
    write("coref", tmp_path)
    dialogues = [record for split in SPLITS for record in read_json_lines(tmp_path / f"{split}.jsonl")
                 if "speakers" in record]  # fmt: skip
    assert dialogues
    for record in dialogues:
        names = [name for _, _, name in record["speakers"]]
        assert names == [name for name, _ in groupby(names)]
        assert all(record["text"][start:].startswith(name) for start, _, name in record["speakers"])
